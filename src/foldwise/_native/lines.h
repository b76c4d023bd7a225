// Asking memory for the lines of cache that will be read soon: into the second cache, where they are in nobody's way.
#pragma once
#include <cstdlib>

#include "probe.h"
#include "vec.h"

namespace foldwise::FOLDWISE_ISA {

// Not further ahead: at 8 KB exact sums of doubles lose a quarter of their speed. Nor nearer: memory that is fast is late by then,
// for a loop with more to do for a line as well.
constexpr int prefetch_distance = 5632;
constexpr int stream_distance = 512;

// The line of cache at `p`, or what there is in its place: of pairs that lie where memory goes on, the first is enough. (To ask
// for it twice costs less than a branch.)
FW_INLINE void fetch_line(const char* p, bool second, bool apart) {
  __builtin_prefetch(p - (second && lines_come_in_pairs && !apart ? 64 : 0), 0, 2);
}

// Some instructions that do nothing, beside each line that is asked for: a processor that looks at fewer loads at a time reads
// memory faster, an Intel Xeon by a sixth. Whoever does more with a line than convert and add has no need of them.
FW_INLINE void hold_back() {
#if defined(__x86_64__)
  asm volatile("nop\n nop\n nop\n nop");
#endif
}

// The lines of so many bytes.
FW_INLINE void fetch_lines(const char* p, int64_t bytes, bool apart) {
  for (int64_t line = 0; line < bytes; line += 64) fetch_line(p + line, line & 64, apart);
}

// What lies a little further on, `stride` bytes a step, will be read soon. What is read backwards comes into the first cache: from
// the second one, Zen 5 takes up to a third longer.
FW_INLINE void fetch_ahead(const char* p, int64_t count, int64_t stride, int64_t distance = prefetch_distance) {
  if (stride < 0) {
    p -= distance;
    for (int64_t back = 64; back < count * -stride + 64; back += 64) __builtin_prefetch(p - back, 0, 3);
  } else {
    p += distance;
    for (int64_t line = 0; line < count * stride; line += 64) __builtin_prefetch(p + line, 0, 2);
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

}  // namespace foldwise::FOLDWISE_ISA
