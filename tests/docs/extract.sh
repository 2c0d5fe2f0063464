#!/usr/bin/env bash
# extract.sh OUT_DIR FILE.md...: writes every ```cpp and ```c block as a program of its own and prints the
# names. A block without main is put into one: its #include lines on top, the rest inside, with the
# variables that docs/api.md promises.
set -euo pipefail
out=$1
shift
mkdir -p "$out"
for page in "$@"; do
  name=$(basename "$page" .md | tr '[:upper:]' '[:lower:]')
  awk -v prefix="$out/$name" '
    /^```(cpp|c)$/ { language = substr($0, 4); n += 1; file = prefix "_" n "." language; printf "" > file; next }
    /^```$/ && file != "" { close(file); print file; file = ""; next }
    file != "" { print > file }' "$page" | while read -r block; do
    if ! grep -q 'int main' "$block"; then
      {
        printf '#include <cstdint>\n#include <cstdio>\n#include <random>\n#include <vector>\n'
        grep '^#include' "$block"
        cat << 'PROLOGUE'
int main() {
  [[maybe_unused]] constexpr long batch = 2, heads = 8, kv_heads = 2, queries = 5, keys = 9, dim = 16;
  std::mt19937 random(1);
  auto buffer = [&](long rows) {
    std::vector<float> data(static_cast<std::size_t>(batch * rows * dim));
    for (float& x : data) x = std::normal_distribution<float>()(random);
    return data;
  };
  std::vector<float> q_data = buffer(heads * queries), k_data = buffer(heads * keys);
  std::vector<float> v_data = buffer(heads * keys), o_data = buffer(heads * queries);
  [[maybe_unused]] float *q = q_data.data(), *k = k_data.data(), *v = v_data.data(), *o = o_data.data();
PROLOGUE
        grep -v '^#include' "$block"
        printf '  return 0;\n}\n'
      } > "$block.tmp"
      mv "$block.tmp" "$block"
    fi
    echo "$block"
  done
done
