// Asking memory for the lines of cache that will be read soon.
#pragma once
#include <cstdlib>

#include "probe.h"
#include "vec.h"

namespace foldwise::FOLDWISE_ISA {

constexpr int64_t line_bytes = 64, page_bytes = 4096;

// What has no AVX-512 is older than Zen 4 and 5, what has it newer than Zen 3.
#if defined(__AVX512F__)
FW_INLINE bool lines_come_first() { return zen5; }
constexpr bool asks_for_what_is_near() { return false; }
FW_INLINE bool asks_in_cache() { return !zen4 && !zen5; }
#else
constexpr bool lines_come_first() { return false; }
FW_INLINE bool asks_for_what_is_near() { return zen3; }
constexpr bool asks_in_cache() { return false; }
#endif

// Not further ahead: at 8 KB exact sums of doubles lose a quarter of their speed. Kernels that do much more than memory's time
// allows ask for what is nearer: grids but on AMD's processors, where it would be late; rows of three but on Zen 5 (on Zen 4
// they lose half of their speed by what is far).
constexpr int prefetch_distance = 5632, near_prefetch_distance = 2304;
FW_INLINE int64_t grid_prefetch_distance() {
  return lines_come_first() || lines_come_in_pairs ? prefetch_distance : near_prefetch_distance;
}
// What Zen 4 is asked for from another page than the one it reads, its third cache does not keep. Along rows:
FW_INLINE int64_t row_prefetch_distance() { return lines_come_in_pairs ? 1024 : prefetch_distance; }
// Of what is read on and on, and added:
FW_INLINE int64_t sequence_prefetch_distance() { return asks_for_what_is_near() ? 1024 : row_prefetch_distance(); }
FW_INLINE int64_t short_rows_prefetch_distance() { return lines_come_first() ? prefetch_distance : near_prefetch_distance; }
constexpr int stream_distance = 512;
// In cache, where vectors lie on two lines: each waits for both, unless they are in the first cache by then. (On AMD's processors that
// was not measured.)
constexpr int cached_distance = 1024;

// Some instructions that do nothing, beside each line that is asked for: a processor that looks at fewer loads at a time reads
// memory faster, an Intel Xeon by a sixth. Whoever does more with a line than convert and add has no need of them.
FW_INLINE void hold_back() {
#if defined(__x86_64__)
  asm volatile("nop\n nop\n nop\n nop");
#endif
}

// The line of cache that lies so many bytes ahead, for the second cache: for loops that lose more by another branch than by
// waiting for it.
template <class T>
FW_INLINE void ask_second_for(const T* p, int64_t ahead = 0) {
  __builtin_prefetch(reinterpret_cast<const char*>(p) + ahead, 0, 2);
}

// The same, for the first cache or the second, as the processor likes it: loops in cache lose up to a quarter by asking at each line.
template <bool paced = false, bool may_come_first = true, class T>
FW_INLINE void ask_for(const T* p, int64_t ahead = 0) {
  if (may_come_first && lines_come_first()) {
    __builtin_prefetch(reinterpret_cast<const char*>(p) + ahead, 0, 3);
  } else {
    ask_second_for(p, ahead);
    if constexpr (paced) hold_back();
  }
}

// The line of cache at `p`, or what there is in its place: of pairs that lie where memory goes on, the first is enough. (To ask
// for it twice costs less than a branch.) Zen 3 reads on from the second cache as well; but what is gone through in turns, of
// which each comes back to it, had better be in the first.
template <bool paced = false, bool in_turns = false, bool may_come_first = true>
FW_INLINE void fetch_line(const char* p, bool second, bool apart) {
  if (second && lines_come_in_pairs && !apart) p -= line_bytes;
  if (asks_for_what_is_near()) __builtin_prefetch(p, 0, in_turns ? 3 : 2);
  else ask_for<paced, may_come_first>(p);
}

// The lines of so many bytes.
FW_INLINE void fetch_lines(const char* p, int64_t bytes, bool apart) {
  if (lines_come_first()) {
    for (int64_t line = 0; line < bytes; line += line_bytes) __builtin_prefetch(p + line, 0, 3);
  } else {
    for (int64_t line = 0; line < bytes; line += line_bytes) fetch_line(p + line, line & line_bytes, apart);
  }
}

// What lies a little further on, `stride` bytes a step, will be read soon. What is read backwards comes into the first cache: from
// the second one, Zen 5 takes up to a third longer.
FW_INLINE void fetch_ahead(const char* p, int64_t count, int64_t stride, int64_t distance = prefetch_distance) {
  if (stride < 0) {
    p -= distance;
    for (int64_t back = line_bytes; back < count * -stride + line_bytes; back += line_bytes) __builtin_prefetch(p - back, 0, 3);
  } else {
    p += distance;
    fetch_lines(p, count * stride, true);
  }
}

// What will be read soon: how far from here, in bytes, whether that is apart from what is read now, how much further it is with
// each step of lanes (0: as far as the elements themselves go), and whether it is in no cache.
struct Ahead {
  int64_t distance = prefetch_distance;
  bool apart = false;
  int64_t pace = 0;
  bool far = true;
};

// The line ahead of one that is read after the other: of pairs, where they lie so, the first is asked for twice.
template <class T>
FW_INLINE void ask_for_next(const T* p, const Ahead& ahead) {
  const int64_t line = reinterpret_cast<std::intptr_t>(p) + ahead.distance;
  ask_for(reinterpret_cast<const char*>(lines_come_in_pairs && !ahead.apart ? line & ~line_bytes : line));
}

}  // namespace foldwise::FOLDWISE_ISA
