// Work in units of so many blocks each: shared out over threads, or done in step with others.
#pragma once
#include "company.h"

namespace foldwise {

// Memory that begins at a cache line: `nearby`, where that is enough of it. One is left on the thread that made it.
class Room {
 public:
  explicit Room(int64_t bytes, char* nearby = nullptr, int64_t nearby_bytes = 0);
  ~Room();
  Room(const Room&) = delete;
  Room& operator=(const Room&) = delete;

  char* begin() const { return begin_; }

 private:
  const int64_t bytes_;
  char *begin_, *here_ = nullptr, *elsewhere_ = nullptr;
};

// Has pieces done: now, or in step with those of others.
void divide(const ReducePlan& plan, int64_t units, int64_t unit_bytes, Pieces pieces);

// Whether so much is from memory: less is in the second caches of those who share it, each of whom has a part of its own.
inline bool is_from_memory(int64_t bytes) { return bytes > (3 << 19) * (thread_count() > 1 ? 2 : 1); }

// How many tiles a binary counter of so many blocks needs.
int counter_depth(int64_t blocks);

struct Units {
  int64_t count, bytes;        // how many there are, and how much each reads, or what takes as long
  int64_t blocks, tile_bytes;  // how many blocks each has, and what folding them leaves

  // Leaves the lanes of blocks first..last - 1 in the first of the tiles.
  using Fold = Calls<void(int64_t unit, int64_t first, int64_t last, char* tiles)>;
  // Merges the lanes of a unit's chunks, all of one size but the last, into the first of the tiles.
  using Join = Calls<void(int64_t unit, char* tiles, const char* parts, int64_t chunks)>;
  // Writes the outputs.
  using Finish = Calls<void(int64_t unit, char* tile)>;

  // Whether there are enough of them for the threads.
  bool are_whole(const ReducePlan& plan) const;
  // Folds every unit, in chunks where there are few for the threads.
  void fold_each(const ReducePlan& plan, Fold fold, Join join, Finish finish) const;
  void join_each(int64_t chunks, const char* parts, Join join, Finish finish) const;
};

}  // namespace foldwise
