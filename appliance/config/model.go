package config

import (
	_ "embed" // the configuration model

	"ze.internal/ze/appliance/schema"
)

//go:embed ze-config.yang
var model []byte

// Model returns the YANG module that says what can be configured.
func Model() schema.Source { return schema.Source{Name: "ze-config.yang", Text: model} }
