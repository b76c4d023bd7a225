#include "units.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

namespace foldwise {

namespace {

constexpr int64_t line = 64;
constexpr int64_t chunk_bytes = 256 << 10;
constexpr int64_t finishing_bytes = 4096;  // finishing a unit takes as long as reading so much

// Where the rooms of a thread lie, one after the other. It keeps what they needed: a heap gives back what is at its end, and the kernel
// clears fresh pages at a fraction of the speed at which a fold fills them. (Whoever looks for errors wants to see each by itself.)
class Stack {
#if defined(__SANITIZE_ADDRESS__)
  static constexpr int64_t most = 0;
#else
  static constexpr int64_t most = 4 << 20;
#endif
  char* memory_ = nullptr;
  int64_t size_ = 0, used_ = 0, rooms_ = 0, all_ = 0, needed_ = 0;

 public:
  // The last that a thread does with what is its own. Whichever thread frees that next holds a lock of the C library, which
  // ThreadSanitizer does not see.
  __attribute__((no_sanitize("thread"))) ~Stack() { delete[] memory_; }

  // Null where there is no room: then they lie elsewhere.
  char* take(int64_t bytes) {
    if (const int64_t worth = std::min(std::max(needed_, bytes), most); !rooms_ && size_ < worth) {
      delete[] std::exchange(memory_, nullptr);
      size_ = 0;
      memory_ = new char[worth];
      size_ = worth;
    }
    if (bytes > size_ - used_) return nullptr;
    ++rooms_;
    used_ += bytes;
    return memory_ + used_ - bytes;
  }
  // All that lies here or elsewhere by now.
  void note(int64_t more) { needed_ = std::max(needed_, all_ += more); }
  // One that is not the last is left when all are.
  void leave(const char* from, int64_t bytes) {
    if (from + bytes == memory_ + used_) used_ -= bytes;
    if (--rooms_ == 0) used_ = 0;
  }
};
thread_local Stack stack;

}  // namespace

Room::Room(int64_t bytes, char* nearby, int64_t nearby_bytes) : bytes_(bytes > nearby_bytes ? (bytes + 2 * line - 1) / line * line : 0) {
  begin_ = nearby;
  if (bytes_) {
    begin_ = here_ = stack.take(bytes_);
    if (!here_) begin_ = elsewhere_ = new char[bytes_];
    stack.note(bytes_);
  }
  begin_ += -reinterpret_cast<std::uintptr_t>(begin_) & (line - 1);
}

Room::~Room() {
  if (bytes_) stack.note(-bytes_);
  if (here_) stack.leave(here_, bytes_);
  delete[] elsewhere_;
}

void divide(const ReducePlan& plan, int64_t units, int64_t unit_bytes, Pieces pieces) {
  if (plan.company) plan.company->join(units, pieces);
  else share(units, unit_bytes, pieces);
}

int counter_depth(int64_t blocks) { return std::bit_width(static_cast<uint64_t>(blocks)) + 1; }

bool Units::are_whole(const ReducePlan& plan) const {
  const int threads = threads_for(count * bytes);
  return plan.company || threads == 1 || count >= 4 * threads || blocks <= 1;
}

void Units::fold_each(const ReducePlan& plan, Fold fold, Join join, Finish finish) const {
  if (are_whole(plan)) {
    divide(plan, count, bytes, [&](int64_t first, int64_t last) {
      const Room tiles(counter_depth(blocks) * tile_bytes);
      for (int64_t unit = first; unit < last; ++unit) {
        fold(unit, 0, blocks, tiles.begin());
        finish(unit, tiles.begin());
      }
    });
    return;
  }
  const int threads = threads_for(count * bytes);
  // So much that what it leaves, which is put aside and read again, is little; but some for every thread.
  const int64_t all = count * bytes, enough = std::min(64 * tile_bytes, all / (4 * threads));
  const int64_t wanted = std::max({chunk_bytes, all / (16 * threads), enough}) * blocks / bytes;
  const int64_t chunk = std::bit_floor(static_cast<uint64_t>(std::max<int64_t>(1, wanted)));
  const int64_t chunks = (blocks + chunk - 1) / chunk;
  const Room parts(count * chunks * tile_bytes);
  parallel(count * chunks, [&](int64_t task) {
    const Room tiles(counter_depth(chunk) * tile_bytes);
    const int64_t first = task % chunks * chunk;
    fold(task / chunks, first, std::min(blocks, first + chunk), tiles.begin());
    std::memcpy(parts.begin() + task * tile_bytes, tiles.begin(), tile_bytes);
  });
  join_each(chunks, parts.begin(), join, finish);
}

void Units::join_each(int64_t chunks, const char* parts, Join join, Finish finish) const {
  share(count, chunks * tile_bytes + finishing_bytes, [&](int64_t first, int64_t last) {
    const Room tiles(counter_depth(chunks) * tile_bytes);
    for (int64_t unit = first; unit < last; ++unit) {
      join(unit, tiles.begin(), parts + unit * chunks * tile_bytes, chunks);
      finish(unit, tiles.begin());
    }
  });
}

}  // namespace foldwise
