// What this machine's memory gives, the yardsticks of the benchmarks, and how it wants to be asked.
#pragma once
#include <cstdint>

namespace foldwise {

// Whether who reads on and asks for a line of cache has its neighbour, too (AMD's Zen 4); to ask for that one then costs a fifth
// of the speed. Elsewhere (Intel's, Zen 5, most of all Zen 3, which then takes twice as long) not to ask for it does.
extern const bool lines_come_in_pairs;

// Lines that are asked for had better come into the first cache at once on AMD's Zen 5, which reads on from the second at two
// thirds of the speed. Elsewhere (Intel's, Zen 4) they would be in the way of what is read now.
extern const bool zen5;

// AMD's Zen 4 makes four doubles of four floats in memory in one step; of eight, for which it has an instruction as well, in four.
extern const bool zen4;

// Whether it shows its instruction that multiplies words of 16 bits and adds the products, for which it takes no more time than for either.
extern const bool adds_products;

// AMD's Zen 3 had better be asked for lines that are near, and without the pauses that suit others.
extern const bool zen3;

// Looks at a byte of every page of this library's constants, now and in every process that forks. An instruction that leaves out all
// elements of what it reads from a page that nobody has looked at does not fetch it: the processor asks anew each time whether it may,
// and takes some 20 ns to. So the speed of a kernel would depend on where the linker put its constants.
void keep_constants_at_hand();

// Reads every byte on the pool's threads; the value only keeps the reading from being dropped.
std::uint64_t probe_read(const char* data, std::int64_t bytes);

// Copies with stores that bypass the caches.
void probe_copy(char* to, const char* from, std::int64_t bytes);

}  // namespace foldwise
