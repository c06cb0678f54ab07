#!/usr/bin/env bash
# Installs the Debian packages that are missing, and only those: tools/setup.sh [group...]
# Groups are the sections of tools/packages.txt; the default is `build`. Silent when all is there.
set -euo pipefail

list="$(dirname "$0")/packages.txt"
groups=("${@:-build}")
missing=() # lines of the list, "name|alternative  why"

is_installed() {
  [[ "$(dpkg-query -W -f='${db:Status-Status}' "$1" 2>/dev/null)" == installed ]]
}

# `package@program` is there when the program is, wherever it came from.
any_installed() {
  local name
  for name in ${1//|/ }; do
    if [[ "$name" == *@* ]] && command -v "${name#*@}" >/dev/null; then return 0; fi
    if is_installed "${name%@*}"; then return 0; fi
  done
  return 1
}

# The lines of the chosen groups, without comments.
wanted_lines() {
  local group="" line
  while IFS= read -r line; do
    case "$line" in
      "" | \#*) ;;
      \[*\]) group="${line:1:-1}" ;;
      *) [[ " ${groups[*]} " == *" $group "* ]] && echo "$line" ;;
    esac
  done <"$list"
  return 0
}

# Of `a|b` the first name that the package index knows.
pick() {
  local name
  for name in ${1//|/ }; do
    name="${name%@*}"
    if apt-cache show "$name" >/dev/null 2>&1; then
      echo "$name"
      return
    fi
  done
  name="${1%%|*}"
  echo "${name%@*}"
}

as_root() {
  if [[ $EUID -eq 0 ]]; then
    "$@"
  elif command -v sudo >/dev/null; then
    sudo "$@"
  else
    echo "setup: not root and no sudo here; run as root: $*" >&2
    exit 1
  fi
}

if ! command -v apt-get >/dev/null; then
  echo "setup: no apt-get here, so nothing is installed. What posenc needs (Debian's names):"
  wanted_lines | sed 's/^/  /'
  exit 0
fi

while read -r spec why; do
  if ! any_installed "$spec"; then missing+=("$(printf '%-22s %s' "$spec" "$why")"); fi
done < <(wanted_lines)
if [[ ${#missing[@]} -eq 0 ]]; then exit 0; fi

echo "setup: these system packages are missing and will be installed with apt-get:"
printf '  %s\n' "${missing[@]}"
quiet=(env DEBIAN_FRONTEND=noninteractive apt-get -qq -o Dpkg::Use-Pty=0)
as_root "${quiet[@]}" update
packages=()
for line in "${missing[@]}"; do packages+=("$(pick "${line%% *}")"); done
echo "setup: apt-get install --no-install-recommends ${packages[*]} (may take a few minutes)"
as_root "${quiet[@]}" install -y --no-install-recommends "${packages[@]}" >/dev/null
echo "setup: done"
