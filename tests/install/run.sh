#!/usr/bin/env bash
# run.sh CMAKE BUILD_DIR WORK_DIR CXX CC: install the build, then use it as a stranger would.
set -euo pipefail
cmake=$1 build=$2 work=$3 cxx=$4 cc=$5
here=$(cd "$(dirname "$0")" && pwd)
prefix=$work/prefix
rm -rf "$prefix" "$work/consumer"

"$cmake" --install "$build" --prefix "$prefix" > /dev/null
"$prefix/bin/tessera" --version

"$cmake" -G Ninja -S "$here/consumer" -B "$work/consumer" -DCMAKE_PREFIX_PATH="$prefix" \
  -DCMAKE_CXX_COMPILER="$cxx" > /dev/null
"$cmake" --build "$work/consumer" > /dev/null
"$work/consumer/consumer"

# examples/serving by itself, by the commands of docs/embedding.md.
tree=$(cd "$here/../.." && pwd)
commands=$(sed -n '/^cmake -S examples\/serving /,/^```$/p' "$tree/docs/embedding.md" | grep -v '^```' |
  sed -e "s,^cmake,'$cmake'," -e "s,examples/serving,'$tree/&'," -e "s,build/serving,'$work/serving',g" -e "s,PREFIX\$,'$prefix',")
[ -n "$commands" ] || { echo "docs/embedding.md has no commands for examples/serving"; exit 1; }
rm -rf "$work/serving"
CMAKE_GENERATOR=Ninja CXX=$cxx bash -ec "$commands" > "$work/serving.log" 2>&1 || { cat "$work/serving.log"; exit 1; }
grep 'the same bits' "$work/serving.log"

if command -v pkg-config > /dev/null; then
  pc_dir=$(dirname "$(find "$prefix" -name tessera.pc)")
  lib_dir=$(PKG_CONFIG_PATH=$pc_dir pkg-config --variable=libdir tessera)
  # shellcheck disable=SC2046  # the flags are meant to split
  "$cc" -std=c11 -Wall -Wextra -Werror "$here/consumer/consumer.c" -o "$work/consumer_c" \
    $(PKG_CONFIG_PATH=$pc_dir pkg-config --cflags --libs tessera)
  LD_LIBRARY_PATH=$lib_dir "$work/consumer_c"
else
  echo "skipped: the pkg-config consumer, because pkg-config is not installed"
fi

# The shared library shows the C interface and nothing else of ours.
leaks=$(nm -D --defined-only "$prefix"/lib*/libtessera.so "$prefix"/lib*/*/libtessera.so 2> /dev/null |
  awk '{print $3}' | grep -vE '^(tessera_|_init$|_fini$)' | grep -E 'tessera|hwy|fmt' || true)
if [ -n "$leaks" ]; then
  echo "symbols that should be hidden: $leaks"
  exit 1
fi
