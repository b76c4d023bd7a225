// A long line on several threads, in stretches of segments, each of which hands on what the next begins with.
//
// Whoever takes a stretch first learns what it holds, waits for what comes before it, hands both on, and then scans what is still in
// its cache. Of as many stretches as there are threads one may lead: it is scanned as soon as it is known what comes before, while
// the others learn what they hold, and hands on what it ends with. As it is read once only, it is the longer.
#pragma once
#include <atomic>

#include "threads.h"

namespace foldwise {

class Relay {
 public:
  enum Kind { led, alike };
  // Of so many segments, about as many bytes in a stretch as a task has.
  Relay(std::int64_t segments, std::int64_t bytes, Kind kind);

  class Stretch {
   public:
    const std::int64_t first, last;  // of its segments
    const bool leads;

    void wait() const;     // until it is known what comes before
    void hand_on() const;  // what comes before the next one is known

   private:
    friend Relay;
    Stretch(std::int64_t first, std::int64_t last, bool leads, std::atomic<std::int64_t>& turn, std::int64_t index)
        : first(first), last(last), leads(leads), turn_(turn), index_(index) {}
    std::atomic<std::int64_t>& turn_;
    const std::int64_t index_;
  };

  // How many segments further on the stretch begins that is likely to fall to the same thread.
  std::int64_t round() const { return round_; }
  void run(Calls<void(const Stretch&)> scan);

 private:
  std::int64_t first(std::int64_t index) const;

  const Kind kind_;
  const std::int64_t segments_, threads_, some_, lead_, round_;
};

}  // namespace foldwise
