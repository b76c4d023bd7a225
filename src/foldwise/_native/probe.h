// What this machine's memory gives: the yardsticks of the benchmarks.
#pragma once
#include <cstdint>

namespace foldwise {

// Reads every byte on the pool's threads; the value only keeps the reading from being dropped.
std::uint64_t probe_read(const char* data, std::int64_t bytes);

// Copies with stores that bypass the caches.
void probe_copy(char* to, const char* from, std::int64_t bytes);

}  // namespace foldwise
