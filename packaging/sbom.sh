#!/bin/sh
# Prints the parts list of the programs in a folder, in CycloneDX, from what the Go
# tool wrote into them and the licenses that the parts come with: sbom.sh VERSION
# DATE FOLDER.
set -eu
version=$1 date=$(date -u -d "@$2" +%Y-%m-%dT%H:%M:%SZ) folder=$3

# licenses names the licenses in the folder of a module by their SPDX identifiers.
licenses() {
	for file in "$1"/LICENSE* "$1"/COPYING*; do
		[ -f "$file" ] || continue
		text=$(tr -s '[:space:]' ' ' <"$file")
		case $text in *'Apache License'*) echo Apache-2.0 ;; esac
		case $text in *'Mozilla Public License'*) echo MPL-2.0 ;; esac
		case $text in *'Permission is hereby granted, free of charge'*) echo MIT ;; esac
		case $text in *'Permission to use, copy, modify, and'*) echo ISC ;; esac
		case $text in
		*'Redistribution and use in source and binary'*'either the name'*) echo BSD-3-Clause ;;
		*'Redistribution and use in source and binary'*) echo BSD-2-Clause ;;
		esac
	done | LC_ALL=C sort -u | paste -sd '+' | sed 's/+/ AND /g'
}

go version -m "$folder/ze" "$folder/ze-mcp" "$folder/ze-test" | LC_ALL=C sort -u | while read -r kind name version _; do
	case $kind-$name in
	dep-*) echo "$name $version $(licenses "$(go list -m -f '{{.Dir}}' "$name")")" ;;
	*/ze:-go1*) echo "stdlib ${name#go} $(licenses "$(go env GOROOT)")" ;;
	esac
done | LC_ALL=C sort -u | awk -v version="$version" -v date="$date" '
	function component(name, version, licenses) {
		printf "%s\n    {\"type\": \"library\", \"name\": \"%s\", \"version\": \"%s\", \"purl\": \"pkg:golang/%s@%s\", \"bom-ref\": \"pkg:golang/%s@%s\", \"licenses\": [{\"expression\": \"%s\"}]}",
			comma, name, version, name, version, name, version, licenses
		comma = ","
	}
	BEGIN {
		printf "{\n  \"bomFormat\": \"CycloneDX\", \"specVersion\": \"1.6\", \"version\": 1,\n"
		printf "  \"metadata\": {\n    \"timestamp\": \"%s\",\n", date
		printf "    \"component\": {\"type\": \"application\", \"name\": \"ze\", \"version\": \"%s\", \"bom-ref\": \"ze\",", version
		printf " \"licenses\": [{\"license\": {\"id\": \"Apache-2.0\"}}]}\n  },\n  \"components\": ["
	}
	{ name = $1; v = $2; $1 = $2 = ""; component(name, v, substr($0, 3)) }
	END { printf "\n  ]\n}\n" }
'
