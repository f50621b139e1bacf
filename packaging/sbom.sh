#!/bin/sh
# Prints the parts list of the programs in a folder, in CycloneDX, from what the Go
# tool wrote into them: sbom.sh VERSION DATE FOLDER.
set -eu
version=$1 date=$(date -u -d "@$2" +%Y-%m-%dT%H:%M:%SZ) folder=$3
go version -m "$folder/ze" "$folder/ze-mcp" "$folder/ze-test" | LC_ALL=C sort -u | awk -v version="$version" -v date="$date" '
	function component(name, version) {
		printf "%s\n    {\"type\": \"library\", \"name\": \"%s\", \"version\": \"%s\", \"purl\": \"pkg:golang/%s@%s\", \"bom-ref\": \"pkg:golang/%s@%s\"}",
			comma, name, version, name, version, name, version
		comma = ","
	}
	BEGIN {
		printf "{\n  \"bomFormat\": \"CycloneDX\", \"specVersion\": \"1.6\", \"version\": 1,\n"
		printf "  \"metadata\": {\n    \"timestamp\": \"%s\",\n", date
		printf "    \"component\": {\"type\": \"application\", \"name\": \"ze\", \"version\": \"%s\", \"bom-ref\": \"ze\",", version
		printf " \"licenses\": [{\"license\": {\"id\": \"Apache-2.0\"}}]}\n  },\n  \"components\": ["
	}
	$2 ~ /^go1/ && !go { component("stdlib", substr($2, 3)); go = 1 }
	$1 == "dep"        { component($2, $3) }
	END                { printf "\n  ]\n}\n" }
'
