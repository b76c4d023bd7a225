// The scans of one fold on one ISA, where they are built otherwise than its reductions: kernels.cpp has those.
#include "scan.h"

namespace foldwise::FOLDWISE_ISA {

#define FOLDWISE_SCAN(S) template bool (*scan_of<FoldOf<FoldId::FOLDWISE_FAMILY>, S>())(const ScanPlan&);
FOLDWISE_EACH_SCANNED(FOLDWISE_SCAN)
#undef FOLDWISE_SCAN

}  // namespace foldwise::FOLDWISE_ISA
