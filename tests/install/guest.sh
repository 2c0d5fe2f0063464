#!/usr/bin/env bash
# guest.sh CMAKE TREE WORK_DIR CXX CC: Tessera inside another project (guest/), and what that one installs of it.
# One kernel and no CUDA: what is tested is the same with all of them.
set -euo pipefail
cmake=$1 tree=$2 work=$3 cxx=$4 cc=$5
here=$(cd "$(dirname "$0")" && pwd)
rm -rf "$work/guest"
mkdir -p "$work/guest"
cd "$work/guest"

configure() {
  "$cmake" -G Ninja -S "$here/guest" -B "$1" -DTESSERA_TREE="$tree" -DTESSERA_CUDA=OFF -DTESSERA_CPU_TARGETS=scalar \
    -DCMAKE_CXX_COMPILER="$cxx" -DCMAKE_C_COMPILER="$cc" "${@:2}" > "$1.log" 2>&1
}
# refuses SENTENCE ARGUMENT...: configuring must fail and say so. CMake breaks its lines where it likes.
refuses() {
  if configure refused "${@:2}"; then echo "configured, though it should say: $1"; exit 1; fi
  tr -s ' \n' ' ' < refused.log | grep -qF "$1" || { cat refused.log; echo "did not say: $1"; exit 1; }
  rm -rf refused
}

refuses "Tessera needs fmt: install it (Debian: libfmt-dev)" -DCMAKE_DISABLE_FIND_PACKAGE_fmt=ON
refuses "Tessera needs the headers of Google Highway" -DTESSERA_HIGHWAY_INCLUDE_DIR=TESSERA_HIGHWAY_INCLUDE_DIR-NOTFOUND \
  -DCMAKE_FIND_ROOT_PATH=/nowhere -DCMAKE_FIND_ROOT_PATH_MODE_INCLUDE=ONLY -DCMAKE_FIND_ROOT_PATH_MODE_PACKAGE=NEVER
refuses "TESSERA_CPU_TARGETS has 'avx3'" -DTESSERA_CPU_TARGETS=avx3
# A project's own fmt and Highway, with no build type and shared libraries, by FetchContent.
configure own -DBY_FETCHCONTENT=ON -DCMAKE_DISABLE_FIND_PACKAGE_fmt=ON -DOWN_FMT=ON -DOWN_HIGHWAY=ON -DBUILD_SHARED_LIBS=ON || { cat own.log; exit 1; }

# Without -g, which nobody reads here.
configure build -DCMAKE_BUILD_TYPE=Debug -DCMAKE_CXX_FLAGS_DEBUG= || { cat build.log; exit 1; }
"$cmake" --build build > build.log || { cat build.log; exit 1; }
build/guest_c
build/guest_cpp
"$cmake" --install build --prefix "$PWD/theirs" > /dev/null
installed=$(cd theirs && find . -type f)
[ "$installed" = ./bin/guest_c ] || { echo "the project installs more than its own: $installed"; exit 1; }

# On request the static library is installed too, and a C program links it without CMake.
configure build -DTESSERA_INSTALL=ON || { cat build.log; exit 1; }
"$cmake" --build build > /dev/null
"$cmake" --install build --prefix "$PWD/ours" > /dev/null
library=$(find ours -name libtessera.a)
"$cc" -std=c11 "$here/consumer/consumer.c" -Iours/include "$library" -lstdc++ -lm -lpthread -ldl -o by_hand
./by_hand
if command -v pkg-config > /dev/null; then
  PKG_CONFIG_PATH=$PWD/$(dirname "$library")/pkgconfig
  export PKG_CONFIG_PATH
  # shellcheck disable=SC2046  # the flags are meant to split
  "$cc" -std=c11 "$here/consumer/consumer.c" $(pkg-config --cflags --libs tessera) -o by_pkg_config
  ./by_pkg_config
else
  echo "skipped: the static library by pkg-config, because pkg-config is not installed"
fi
