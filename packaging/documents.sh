#!/bin/sh
# Makes what the packages carry beside the programs: documents.sh VERSION DATE BUILD,
# the date in seconds since 1970, BUILD the folder to make it in.
set -eu
version=$1 date=$(date -u -d "@$2" +%Y-%m-%dT%H:%M:%SZ) build=$3
host=$build/$(go env GOHOSTARCH)
rm -rf "$build/doc" "$build/man"
mkdir -p "$build/doc" "$build/man" "$build/completions"

# The changelog as nfpm reads it. What is not released is what this version brings.
awk -v version="$version" -v date="$date" '
	function entry(version, date) {
		printf "- semver: %s-1\n  date: %s\n  packager: The ze project <ze@ze.internal>\n", version, date
		printf "  deb: {urgency: medium, distributions: [unstable]}\n  changes:\n"
	}
	function note() {
		if (text != "") printf "    - note: \"%s\"\n", text
		text = ""
	}
	{ gsub(/[`\\]/, ""); gsub(/"/, "\\\"") }
	/^## Unreleased/ { note(); entry(version, date); next }
	/^## /           { note(); entry($2, $3 "T00:00:00Z"); next }
	/^- /            { note(); text = substr($0, 3); next }
	/^  /            { text = text substr($0, 2) }
	END              { note() }
' CHANGELOG.md >"$build/changelog.yaml"

# Links between documents are between neighbours there.
sed 's|(packaging/doc/|(|g' README.md >"$build/doc/README.md"
cp packaging/doc/*.md "$build/doc/"

# What the licenses of the modules in the programs want to be passed on.
{
	printf '======== Go\n\n'
	cat "$(go env GOROOT)/LICENSE"
	go list -deps -f '{{with .Module}}{{if not .Main}}{{.Path}} {{.Version}} {{.Dir}}{{end}}{{end}}' ./cmd/ze ./cmd/ze-mcp ./cmd/ze-test | LC_ALL=C sort -u |
		while read -r module version dir; do
			for file in "$dir"/LICENSE* "$dir"/COPYING* "$dir"/NOTICE* "$dir"/PATENTS*; do
				[ -f "$file" ] || continue
				printf '\n======== %s %s: %s\n\n' "$module" "$version" "${file##*/}"
				cat "$file"
			done
		done
} | gzip -9n >"$build/doc/third-party.txt.gz"

for program in ze ze-mcp ze-test; do
	"$host/$program" manual "$build/man"
done
gzip -9n "$build/man"/*.1
for program in ze ze-test; do
	for shell in bash fish zsh; do
		"$host/$program" completion "$shell" >"$build/completions/$program.$shell"
	done
done

# nfpm takes patterns, but not for what an rpm marks as documentation.
for file in "$build"/man/*; do
	printf '  - {src: "%s", dst: "/usr/share/man/man1/%s", packager: rpm, type: doc, file_info: {mode: 0644}}\n' "$file" "${file##*/}"
done >"$build/rpm.yaml"
for file in "$build"/doc/*; do
	printf '  - {src: "%s", dst: "/usr/share/doc/ze/%s", packager: rpm, type: doc, file_info: {mode: 0644}}\n' "$file" "${file##*/}"
done >>"$build/rpm.yaml"
