// Which folds have a loop with others, and which part of it each is.
#pragma once
#include "folds.h"
#include "joint_loop.h"

namespace foldwise::FOLDWISE_ISA {

template <class F> constexpr Part part_of = Part::none;
template <class S, class A> constexpr Part part_of<Sum<S, A>> = Part::total;
template <class S, class A> constexpr Part part_of<Max<S, A>> = Part::largest;
template <class S, class A> constexpr Part part_of<Min<S, A>> = Part::smallest;
template <class S, class A> constexpr Part part_of<Squares<S, A>> = Part::squares;
template <class S, class A> constexpr Part part_of<JudgedSum<S, A>> = Part::exact_total;

}  // namespace foldwise::FOLDWISE_ISA
