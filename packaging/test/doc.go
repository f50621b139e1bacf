// Package test holds what is packaged against the world it is made for: a real
// systemd as PID 1, dpkg and rpm, a real Prometheus. It owns the machines that are
// booted for that and the steps of a package's life on them. It has tests only,
// and must not know how the daemon works inside.
package test
