#!/usr/bin/env bash
# complete.sh SCRIPT LAB: completes words of posenc as bash does, with the script that was installed.
set -euo pipefail
source "$1"
lab=$2

# expect WANTED WORD...: the last word is completed to what is wanted.
expect() {
  local wanted=$1
  shift
  COMP_WORDS=("$@")
  COMP_CWORD=$(($# - 1))
  COMPREPLY=()
  _posenc || true  # 1 where nothing matches
  if [[ ${COMPREPLY[*]} != "$wanted" ]]; then
    echo "$*: completed to '${COMPREPLY[*]}', not to '$wanted'" >&2
    exit 1
  fi
}

complete -p posenc >/dev/null
expect train posenc tra
expect 'init inspect' posenc in
expect --precision posenc inspect --prec
expect 'exact' posenc inspect --precision ex
expect 'exact' posenc inspect --head-dim 64 --precision ex
expect '' posenc inspect --head-dim ''
expect yarn posenc list yar
expect status posenc sweep sta
expect --json posenc sweep status --j
expect 'zsh' posenc completion z
expect train posenc help tra
expect train posenc data tokenizer tr
if [[ -x $lab ]]; then
  expect --resume posenc train --res
  expect 'plain' posenc train --progress pl
fi
