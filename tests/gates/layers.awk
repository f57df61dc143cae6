# SPDX-License-Identifier: Apache-2.0
# awk -f layers.awk layers.txt FILE...: what a file of src/NAME/ may include is on the line "NAME: ..." of layers.txt.
#
# Quoted includes are written from src/ ("base/log.h") or from include/ ("nccl/v8.h"); a name without a slash is in the
# file's own folder.  NCCL's declarations are for src/plugin/ alone: everything below it is free of NCCL's versions.
# Exit status 1 when a rule is broken, 2 when there is nothing to check.

function complain(text) {
	print FILENAME ":" FNR ": " text
	bad = 1
}

FNR == NR {
	sub(/#.*/, "")
	if (split($0, part, ":") == 2) {
		known[part[1]] = 1
		count = split(part[2], below, " ")
		for (i = 1; i <= count; i++)
			may[part[1], below[i]] = 1
	}
	next
}

FNR == 1 {
	files++
	split(FILENAME, path, "/")
	module = path[2]
	if (!(module in known))
		complain("the folder src/" module " is not in layers.txt")
}

/^[ \t]*#[ \t]*include[ \t]*["<]/ {
	quoted = $0 ~ /include[ \t]*"/
	split($0, piece, quoted ? "\"" : "[<>]")
	target = piece[2]
	if (split(target, path, "/") < 2)
		next
	if (path[1] == "nccl") {
		if (module != "plugin")
			complain("only src/plugin may include " target)
	} else if (quoted && path[1] != "tributary" && path[1] != module) {
		if (path[1] in known) {
			if (!((module, path[1]) in may))
				complain("src/" module " may not include " target " (layers.txt)")
		} else
			complain("write the include from src/: " target)
	}
}

END {
	if (!files) {
		print "check-layers: no file to check"
		exit 2
	}
	exit bad
}
