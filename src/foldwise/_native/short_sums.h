// Sums of integers that are shorter than what they are added in, as they lie.
#pragma once
#include "blocks.h"
#include "units.h"

namespace foldwise::FOLDWISE_ISA {

// Takes the totals of so many neighbouring outputs, and as many more as fill a vector of them; results go to `out` and so far apart.
// Whether all of them fit.
using FinishTotals = Calls<bool(const int64_t* totals, int64_t count, char* out, int64_t stride)>;

// Whether the sums of a plan can be made here: of integers of up to four bytes, and of truths, that lie in lines.
bool adds_short(const ReducePlan& plan);
bool add_short(const ReducePlan& plan, FinishTotals finish);

}  // namespace foldwise::FOLDWISE_ISA
