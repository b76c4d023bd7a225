#include "relay.h"

#include <sched.h>

#include <algorithm>

namespace foldwise {

Relay::Relay(std::int64_t segments, std::int64_t bytes, Kind kind)
    : kind_(kind),
      segments_(segments),
      threads_(thread_count()),
      some_(std::max<std::int64_t>(1, task_bytes * segments / bytes)),
      lead_(some_ + (kind == led ? (some_ + 2) / 3 : 0)),
      round_(lead_ + (threads_ - 1) * some_) {}

std::int64_t Relay::first(std::int64_t index) const {
  const std::int64_t place = index % threads_;
  return std::min(segments_, index / threads_ * round_ + (place ? lead_ + (place - 1) * some_ : 0));
}

void Relay::run(Calls<void(const Stretch&)> scan) {
  const std::int64_t rest = segments_ % round_, others = std::max<std::int64_t>(0, rest - lead_);
  const std::int64_t count = segments_ / round_ * threads_ + (rest > 0) + (others + some_ - 1) / some_;
  std::atomic<std::int64_t> turn{0};
  parallel(count, [&](std::int64_t index) {
    scan(Stretch(first(index), first(index + 1), kind_ == led && index % threads_ == 0, turn, index));
  }, Order::rising);
}

void Relay::Stretch::wait() const {
  for (int spins = 0; turn_.load(std::memory_order_acquire) != index_; ++spins) {
    if (spins > 20000) sched_yield();
  }
}

void Relay::Stretch::hand_on() const { turn_.store(index_ + 1, std::memory_order_release); }

}  // namespace foldwise
