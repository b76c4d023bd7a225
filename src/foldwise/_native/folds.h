// Every fold, and the list of them.
#pragma once
#include "exact_folds.h"
#include "extremes.h"
#include "judged.h"
#include "logs.h"
#include "products.h"
#include "sums.h"

namespace foldwise::FOLDWISE_ISA {

// ---- the list of them

// What a fold is in scans.
template <class F> struct InScansOf { using type = F; };
template <class F>
  requires requires { typename F::InScans; }
struct InScansOf<F> { using type = typename F::InScans; };
template <class F> using InScans = typename InScansOf<F>::type;

// The struct that folds S: reducing, scanning, and scanning it as it is where it is widened otherwise.
template <FoldId id> struct FoldOf;
#define FOLDWISE_FOLD(name, Struct, Width, scans)                                     \
  template <> struct FoldOf<FoldId::name> {                                           \
    template <class S> using Reduced = Struct<S, typename Width::Reduced<S>::type>;   \
    template <class S> using Scanned = InScans<Struct<S, typename Width::Scanned<S>::type>>; \
    template <class S> static constexpr bool exists = !std::is_void_v<typename Width::Reduced<S>::type>; \
    template <class S> static constexpr bool is_scanned = scans && !std::is_void_v<typename Width::Scanned<S>::type>; \
    template <class S> using ScannedShort = Struct<S, S>;                             \
  };
#include "folds.def"
#undef FOLDWISE_FOLD

}  // namespace foldwise::FOLDWISE_ISA
