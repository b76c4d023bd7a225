// Long rows, and a few interleaved sequences, whatever folds them: how they are walked, and how the work is shared out.
#pragma once
#include "blocks.h"
#include "joint_loop.h"
#include "units.h"

namespace foldwise::FOLDWISE_ISA {

constexpr int64_t small_unit_bytes = 8 << 10;  // of a sequence that one of a company folds at once

// A walk shows elements first..first + count - 1: visit(p, some, next) for each stretch, `next` being where memory goes on
// after it. (A fold that is to fetch nothing is given none.) It ends where a visit says that no more is wanted. Elements are
// those of `k` sequences, where they lie interleaved. (Where totals serve as well, one visit shows a step that comes to what all do.)
using Visit = Calls<bool(const char* p, int64_t some, const char* next)>;
using Walk = Calls<void(int64_t first, int64_t count, Visit visit)>;

// A fold of sequences, for a driver that is the same for all of them: a state, which takes stretches as they come.
struct SequenceFold {
  int64_t item, effort;                     // bytes of an element as it is read; how much longer than reading it takes
  int64_t block, lanes;                     // elements of a block and of a step
  int64_t state, tile, plain_room;          // bytes, the last two of each sequence
  void (*open)(void* state, int64_t k, int64_t first, char* tiles, char* plain);
  bool (*take)(void* state, const char* p, int64_t count, const char* next, Walk walk);  // whether more is wanted
  void (*fetch)(void* state, const char* from, int64_t slower);
  void (*end)(void* state, Walk walk);      // the lanes of everything are in the first tile
  void (*join)(char* tiles, const char* parts, int64_t chunks, int64_t k);
  bool (*finish)(const ReducePlan& plan, const void* reduction, char* tile, int64_t k, char* out);
  void (*read)(const void* reduction, char* to, Cursor& from, int64_t count);
  bool anywhere = false;                    // whether a stretch may begin in the middle of a step
  bool adds = false;                        // 64-bit integers, so that totals of shorter ones serve as well

  // Where there is a loop for several: its part, whether it accumulates floats, and a span of elements that the loop took, if they
  // raised nothing that plain arithmetic is not good for.
  Part part = Part::none;
  bool real = true;
  void (*give)(void* state, const char* lanes, int64_t count, unsigned raised, Walk walk) = nullptr;
};

// `reduction` is what finish and read are handed back; `one` sequence is folded at a time, or as many as lie interleaved.
// Returns whether every result fitted.
bool fold_sequences(const ReducePlan& plan, const SequenceFold& fold, const void* reduction, bool one, bool from_memory);

}  // namespace foldwise::FOLDWISE_ISA
