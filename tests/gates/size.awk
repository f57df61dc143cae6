# SPDX-License-Identifier: Apache-2.0
# awk -f size.awk FILE...: in src/ no function body over 60 lines and no file over 600, elsewhere 120 and 700.
#
# Our brace style makes this easy: a function's body opens with "{" alone at the start of a line and closes with "}" there.
# A table of data (an initialiser) opens at the end of a line and is not counted as a function.

function file_done() {
	if (lines > max_file) {
		print last ": " lines " lines, at most " max_file
		bad = 1
	}
}

FNR == 1 {
	file_done()
	files++
	last = FILENAME
	open_at = 0
	max_function = FILENAME ~ /^src\// ? 60 : 120
	max_file = FILENAME ~ /^src\// ? 600 : 700
}

FNR == 1 { licensed = /SPDX-License-Identifier/ }

{ lines = FNR - licensed }

/^\{/ { open_at = FNR }

/^\}/ && open_at {
	if (FNR - open_at > max_function) {
		print FILENAME ":" open_at ": a function of " FNR - open_at " lines, at most " max_function
		bad = 1
	}
	open_at = 0
}

END {
	if (!files) {
		print "check-size: no file to check"
		exit 2
	}
	file_done()
	exit bad
}
