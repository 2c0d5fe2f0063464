#!/usr/bin/env bash
# serving.sh PROGRAM TREE: examples/serving, run as the documentation says, then with what must be refused.
set -euo pipefail
program=$1 tree=$2

fail() { echo "$1"; exit 1; }

# runs ARGUMENT...: must succeed; what it printed is in $output.
runs() {
  echo "== serving $*"
  output=$("$program" "$@" 2>&1) || fail "exited with $?: $output"
  echo "$output"
}
# says PATTERN: a line of $output matches.
says() { grep -qE "$1" <<< "$output" || fail "no line matches: $1"; }

# Every command of the documentation, on whatever device it names; all that can happen has to happen in one of them.
pages=("$tree/README.md" "$tree/docs/serving.md" "$tree/docs/embedding.md" "$tree/examples/serving/README.md")
commands=$(sed -nE 's,^(build/[a-z]*/(examples/serving/)?)tessera_serving_example *([^#]*).*,\3,p' "${pages[@]}" | sort -u)
[ -n "$commands" ] || fail "the documentation has no command"
everything=
while read -r -a arguments; do
  runs "${arguments[@]}"
  says '^alone, in the same chunks: the same bits, [1-9][0-9]* tokens'
  says '^alone, in one call: the same tokens, '
  says '^[1-9][0-9]* tokens generated, [0-9]+ a second'
  if grep -qE '^[0-9]+ steps, [1-9][0-9]* of them mixed' <<< "$output" &&
    grep -qE ' [1-9][0-9]* rows taken over' <<< "$output" &&
    grep -qE ' [1-9][0-9]* copied on write, [1-9][0-9]* preemptions' <<< "$output"; then everything=yes; fi
done <<< "$commands"
[ -n "$everything" ] || fail "no command of the documentation mixes, shares, copies and preempts"

runs --requests 1 --pages 10 --threads 1
runs --requests 30 --pages 10 --seed 7 --threads 3
runs --help
says '^  --device cpu\|cuda '

# On a GPU, where there is one.
status=0
output=$("$program" --device cuda --requests 6 --pages 16 2>&1) || status=$?
if [ $status = 0 ]; then
  says '^alone, in the same chunks: the same bits, '
elif [ $status = 1 ] && grep -qE "^serving: --device is 'cuda', but (there is no GPU|this program was built without)" <<< "$output"; then
  echo "skipped: the example on a GPU: ${output#*but }"
else
  fail "--device cuda gave status $status: $output"
fi

# The bar moves on a terminal alone.
if command -v script > /dev/null; then
  output=$(script -qec "'$program' --requests 4" /dev/null < /dev/null) || fail "on a terminal: $output"
  says 'served \[#+\.*\] '
else
  echo "skipped: the progress bar, because there is no 'script' (util-linux) to make a terminal"
fi

# refuses STATUS SENTENCE ARGUMENT...
refuses() {
  local status=0
  output=$("$program" "${@:3}" 2>&1) || status=$?
  [ "$status" = "$1" ] || fail "$* gave status $status: $output"
  grep -qF -- "serving: $2" <<< "$output" || fail "'${*:3}' said: $output"
}
refuses 2 "--requests is '0'; a whole number from 1 to 1000 is accepted" --requests 0
refuses 2 "--requests is '1001'; a whole number from 1 to 1000" --requests 1001
refuses 2 "--requests is '4x'; a whole number" --requests 4x
refuses 2 "--requests is ''; a whole number" --requests ''
refuses 2 "--requests needs a value after it" --requests
refuses 2 "--pages is '9'; a whole number from 10 to 10000" --pages 9
refuses 2 "--pages is '99999999999999999999'; a whole number" --pages 99999999999999999999
refuses 2 "--seed is '-1'; a whole number from 0" --seed -1
refuses 2 "--threads is '1025'; a whole number from 0 to 1024" --threads 1025
refuses 2 "--device is 'gpu'; cpu and cuda are accepted" --device gpu
refuses 2 "'--page' is no option" --page 3
