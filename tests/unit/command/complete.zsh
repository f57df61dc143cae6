# SPDX-License-Identifier: Apache-2.0
# What zsh offers for a command line, a word a line: zsh -f complete.zsh FUNCTION_FILE LINE FILE_FOR_IT. Completion wants an
# interactive zsh on a terminal; in it compadd notes what it would add, and the end of the completion ends the shell.
zmodload zsh/zpty || exit 77
child=$(mktemp) || exit 1
cat >$child <<'END'
PROMPT=
autoload -U compinit && compinit -u -D
bindkey '^I' complete-word
zstyle ':completion:*' insert-tab false
functions[_tributary]=$(<$COMPLETE_FUNCTION)
compdef _tributary tributary
comppostfuncs=(exit)
compadd() {
	local -a hits
	if [[ ${@[1,(i)(-|--)]} == *-(O|A|D)\ * ]]; then
		builtin compadd "$@"
		return
	fi
	builtin compadd -A hits "$@"
	(( $#hits )) && print -rl -- $hits >>$COMPLETE_RESULT
	return 1
}
END
export COMPLETE_FUNCTION=$1 COMPLETE_RESULT=$3
: >$3
zpty z zsh -f -i
zpty -w z "source $child"
zpty -w -n z "$2"$'\t'
while zpty -r z line; do :; done
rm -f $child
