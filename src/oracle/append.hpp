// What a call does before its attention, from the words of tessera.h alone: new rows are stored in key and
// value, and the rows of the query are turned. The judges compute what is left: attend() and plain() take no
// new rows and no rope.
#pragma once

#include <tessera/tessera.h>

#include <vector>

namespace tessera::oracle {

// Whether a call has something to do before its attention.
inline bool has_append(const tessera_attention& p) { return p.new_key.rank > 0 || p.rope.cos.rank > 0; }

// Stores the new rows in copies of key, value and key_tail: the same shapes and strides at other addresses.
// Where the values lie in the keys, `value` is not touched, and without a tail `key_tail` is not.
void store_new_rows(const tessera_attention& p, void* key, void* value, void* key_tail = nullptr);

// The query's rows, turned: contiguous, in the query's dtype. Rows of no entry stay as they are.
std::vector<unsigned char> turned_query(const tessera_attention& p);

// What is left to compute, over copies of what the call writes. May be made before the call or after it:
// storing the same rows again changes nothing.
class Rest {
 public:
  explicit Rest(const tessera_attention& p);
  Rest(const Rest&) = delete;
  Rest& operator=(const Rest&) = delete;
  [[nodiscard]] const tessera_attention& problem() const { return problem_; }

 private:
  tessera_attention problem_;
  std::vector<unsigned char> query_, key_, value_, key_tail_;
};

}  // namespace tessera::oracle
