// Lanes with each other (shuffles, votes, reductions), special registers, packing, odd bit operations.
#include "emulator/exec/handlers.hpp"

namespace emulator {
namespace {

using u32 = std::uint32_t;
using u64 = std::uint64_t;

template <class T>
void keep(Warp& w, std::int32_t to, const T* from) {
  T* d = w.at<T>(to);
  for (unsigned i = 0; i < kLanes; ++i) d[i] = (w.mask >> i & 1u) != 0 ? from[i] : d[i];
}

// All lanes that the mask of a .sync instruction names must be here.
void check_members(const Warp& w, std::int32_t members) {
  const u32* m = w.at<u32>(members);
  for (u32 rest = w.mask; rest != 0; rest &= rest - 1) {
    const auto lane = static_cast<unsigned>(__builtin_ctz(rest));
    if ((m[lane] >> lane & 1u) == 0)
      fault(1u << lane, 0, "a lane runs a .sync instruction whose mask does not name it");
    const u32 missing = m[lane] & w.live & ~w.mask;
    if (missing != 0) fault(missing, 0, "divergent .sync: its mask names lanes that are elsewhere");
  }
}

}  // namespace

namespace handlers {

// c: which one
void special(Warp& w, const Op& op) {
  const Block& block = *w.block;
  const Launch& launch = *block.grid->launch;
  u32 r[kLanes];
  for (unsigned i = 0; i < kLanes; ++i) {
    const unsigned thread = w.index * kLanes + i;
    switch (static_cast<Special>(op.c)) {
      case Special::tid_x:
        r[i] = thread % launch.block[0];
        break;
      case Special::tid_y:
        r[i] = thread / launch.block[0] % launch.block[1];
        break;
      case Special::tid_z:
        r[i] = thread / launch.block[0] / launch.block[1];
        break;
      case Special::ntid_x:
        r[i] = launch.block[0];
        break;
      case Special::ntid_y:
        r[i] = launch.block[1];
        break;
      case Special::ntid_z:
        r[i] = launch.block[2];
        break;
      case Special::ctaid_x:
        r[i] = block.index[0];
        break;
      case Special::ctaid_y:
        r[i] = block.index[1];
        break;
      case Special::ctaid_z:
        r[i] = block.index[2];
        break;
      case Special::nctaid_x:
        r[i] = launch.grid[0];
        break;
      case Special::nctaid_y:
        r[i] = launch.grid[1];
        break;
      case Special::nctaid_z:
        r[i] = launch.grid[2];
        break;
      case Special::laneid:
        r[i] = i;
        break;
      case Special::warpid:
        r[i] = w.index;
        break;
      case Special::nwarpid:
        r[i] = static_cast<u32>(block.warps.size());
        break;
      case Special::lanemask_lt:
        r[i] = (1u << i) - 1;
        break;
      case Special::lanemask_le:
        r[i] = (1u << i) | ((1u << i) - 1);
        break;
      case Special::lanemask_gt:
        r[i] = ~((1u << i) | ((1u << i) - 1));
        break;
      case Special::lanemask_ge:
        r[i] = ~((1u << i) - 1);
        break;
      case Special::lanemask_eq:
        r[i] = 1u << i;
        break;
      case Special::dynamic_smem_size:
        r[i] = static_cast<u32>(launch.dynamic_shared_bytes);
        break;
    }
  }
  keep(w, op.d, r);
}

// value: the window to add or take off; c: 0 to generic, 1 to a space; 32-bit sources in y
void window(Warp& w, const Op& op) {
  const u64* a = w.at<u64>(op.a);
  u64 r[kLanes];
  const auto base = static_cast<u64>(op.value);
  for (unsigned i = 0; i < kLanes; ++i) {
    if ((w.mask >> i & 1u) == 0) continue;
    if (op.c == 0) {
      r[i] = a[i] + base;
    } else {
      if ((a[i] & kWindowMask) != base)
        fault(1u << i, a[i], "cvta.to: a generic address that is not in the space it is taken to");
      r[i] = a[i] - base;
    }
  }
  keep(w, op.d, r);
}

void pack_16(Warp& w, const Op& op) {
  const u32 *a = w.at<u32>(op.a), *b = w.at<u32>(op.b);
  u32 r[kLanes];
  for (unsigned i = 0; i < kLanes; ++i) r[i] = (a[i] & 0xffffu) | b[i] << 16;
  keep(w, op.d, r);
}
// d, b: low and high half; either may be missing (-1 has no row)
void unpack_16(Warp& w, const Op& op) {
  const u32* a = w.at<u32>(op.a);
  u32 low[kLanes], high[kLanes];
  for (unsigned i = 0; i < kLanes; ++i) low[i] = a[i] & 0xffffu, high[i] = a[i] >> 16;
  if ((op.y & 1) != 0) keep(w, op.d, low);
  if ((op.y & 2) != 0) keep(w, op.b, high);
}
void pack_32(Warp& w, const Op& op) {
  const u32 *a = w.at<u32>(op.a), *b = w.at<u32>(op.b);
  u64 r[kLanes];
  for (unsigned i = 0; i < kLanes; ++i) r[i] = a[i] | u64{b[i]} << 32;
  keep(w, op.d, r);
}
void unpack_32(Warp& w, const Op& op) {
  const u64* a = w.at<u64>(op.a);
  u32 low[kLanes], high[kLanes];
  for (unsigned i = 0; i < kLanes; ++i)
    low[i] = static_cast<u32>(a[i]), high[i] = static_cast<u32>(a[i] >> 32);
  if ((op.y & 1) != 0) keep(w, op.d, low);
  if ((op.y & 2) != 0) keep(w, op.b, high);
}

// c: 0 and, 1 or, 2 xor, 3 not, 4 mov
void predicate_logic(Warp& w, const Op& op) {
  const u32 a = w.predicate(op.a), b = w.predicate(op.b);
  const u32 r = op.c == 0 ? a & b : op.c == 1 ? a | b : op.c == 2 ? a ^ b : op.c == 3 ? ~a : a;
  w.set_predicate(op.d, r);
}

// bfi d, a, b, c, length: x is where the length is
void insert_bits(Warp& w, const Op& op) {
  const u32 *a = w.at<u32>(op.a), *b = w.at<u32>(op.b), *at = w.at<u32>(op.c);
  const u32* length = w.at<u32>(static_cast<std::int32_t>(op.x));
  u32 r[kLanes];
  for (unsigned i = 0; i < kLanes; ++i) {
    const u32 from = at[i] & 255u, n = length[i] & 255u;
    const u64 field = n > 31 ? 0xffffffffu : (u64{1} << n) - 1;
    const u32 mask = from > 31 ? 0u : static_cast<u32>(field << from);
    const u32 bits = from > 31 ? 0u : a[i] << from;
    r[i] = (b[i] & ~mask) | (bits & mask);
  }
  keep(w, op.d, r);
}

void permute_bytes(Warp& w, const Op& op) {
  const u32 *a = w.at<u32>(op.a), *b = w.at<u32>(op.b), *c = w.at<u32>(op.c);
  u32 r[kLanes];
  for (unsigned i = 0; i < kLanes; ++i) {
    const u64 both = a[i] | u64{b[i]} << 32;
    r[i] = 0;
    for (unsigned k = 0; k < 4; ++k) {
      const u32 pick = c[i] >> (4 * k) & 15u;
      u32 byte = static_cast<u32>(both >> (8 * (pick & 7u))) & 0xffu;
      if ((pick & 8u) != 0) byte = (byte & 0x80u) != 0 ? 0xffu : 0u;
      r[i] |= byte << (8 * k);
    }
  }
  keep(w, op.d, r);
}

// y: the truth table
void logic_3(Warp& w, const Op& op) {
  const u32 *a = w.at<u32>(op.a), *b = w.at<u32>(op.b), *c = w.at<u32>(op.c);
  u32 r[kLanes];
  for (unsigned i = 0; i < kLanes; ++i) {
    u32 out = 0;
    for (unsigned k = 0; k < 8; ++k) {
      if ((op.y >> k & 1u) == 0) continue;
      out |= (k & 4 ? a[i] : ~a[i]) & (k & 2 ? b[i] : ~b[i]) & (k & 1 ? c[i] : ~c[i]);
    }
    r[i] = out;
  }
  keep(w, op.d, r);
}

// d: result; a: value; b: lane or distance; c: segment and clamp; x: members; y: mode (0 up, 1 down, 2 bfly,
// 3 idx); value: predicate that says whether the source was in range, or -1
void shuffle(Warp& w, const Op& op) {
  check_members(w, static_cast<std::int32_t>(op.x));
  const u32 *a = w.at<u32>(op.a), *b = w.at<u32>(op.b), *c = w.at<u32>(op.c);
  u32 r[kLanes], in_range = 0;
  for (unsigned i = 0; i < kLanes; ++i) {
    const u32 by = b[i] & 31u, clamp = c[i] & 31u, segment = c[i] >> 8 & 31u;
    const u32 last = (i & segment) | (clamp & ~segment), first = i & segment;
    u32 from = i;
    bool inside = false;
    switch (op.y) {
      case 0:
        from = i - by;
        inside = static_cast<std::int32_t>(from) >= static_cast<std::int32_t>(last);
        break;
      case 1:
        from = i + by;
        inside = from <= last;
        break;
      case 2:
        from = i ^ by;
        inside = from <= last;
        break;
      default:
        from = first | (by & ~segment);
        inside = from <= last;
        break;
    }
    if (!inside) from = i;
    in_range |= (inside ? 1u : 0u) << i;
    r[i] = a[from & 31u];
    if ((w.mask >> i & 1u) != 0 && (w.mask >> (from & 31u) & 1u) == 0)
      fault(1u << i, 0, "shfl reads a lane that does not take part");
  }
  keep(w, op.d, r);
  if (op.value >= 0) w.set_predicate(static_cast<std::int32_t>(op.value), in_range);
}

// y: 0 all, 1 any, 2 uni, 3 ballot; a: predicate; b: members
void vote(Warp& w, const Op& op) {
  check_members(w, op.b);
  const u32 yes = w.predicate(op.a) & w.mask;
  if (op.y == 3) {
    u32 r[kLanes];
    for (unsigned i = 0; i < kLanes; ++i) r[i] = yes;
    return keep(w, op.d, r);
  }
  const bool all = yes == w.mask, any = yes != 0;
  const bool out = op.y == 0 ? all : op.y == 1 ? any : all || !any;
  w.set_predicate(op.d, out ? kAllLanes : 0u);
}

// y: 0 and, 1 or, 2 xor, 3 add, 4 min.s32, 5 max.s32, 6 min.u32, 7 max.u32; b: members
void reduce(Warp& w, const Op& op) {
  check_members(w, op.b);
  const u32* a = w.at<u32>(op.a);
  const auto s = [](u32 x) { return static_cast<std::int32_t>(x); };
  u32 all = a[__builtin_ctz(w.mask)];
  for (u32 rest = w.mask & (w.mask - 1); rest != 0; rest &= rest - 1) {
    const u32 x = a[__builtin_ctz(rest)];
    switch (op.y) {
      case 0:
        all &= x;
        break;
      case 1:
        all |= x;
        break;
      case 2:
        all ^= x;
        break;
      case 3:
        all += x;
        break;
      case 4:
        all = s(x) < s(all) ? x : all;
        break;
      case 5:
        all = s(x) > s(all) ? x : all;
        break;
      case 6:
        all = x < all ? x : all;
        break;
      default:
        all = x > all ? x : all;
        break;
    }
  }
  u32 r[kLanes];
  for (unsigned i = 0; i < kLanes; ++i) r[i] = all;
  keep(w, op.d, r);
}

void warp_sync(Warp& w, const Op& op) { check_members(w, op.a); }

}  // namespace handlers
}  // namespace emulator
