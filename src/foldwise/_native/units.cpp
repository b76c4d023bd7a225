#include "units.h"

#include <algorithm>
#include <bit>
#include <cstring>

namespace foldwise {

namespace {

constexpr int64_t line = 64;
constexpr int64_t chunk_bytes = 256 << 10;
constexpr int64_t finishing_bytes = 4096;  // finishing a unit takes as long as reading so much

}  // namespace

Room::Room(int64_t bytes, char* nearby, int64_t nearby_bytes)
    : memory_(bytes > nearby_bytes ? new char[bytes + line] : nullptr), begin_(memory_ ? memory_ : nearby) {
  begin_ += -reinterpret_cast<std::uintptr_t>(begin_) & (line - 1);
}

Room::~Room() { delete[] memory_; }

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
  const int64_t wanted = std::max(chunk_bytes, count * bytes / (16 * threads)) * blocks / bytes;
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
