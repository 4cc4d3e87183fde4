// The branches of a sum: what is added up, and how each term reads its elements.
#pragma once
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "lower/rewrite.h"

namespace ingot::lower {

// Axes are those of the sum, then those that a branch sums over; -1 is an axis of size 1. An axis of the sum that a convolution has merged is split into finer ones.

// From the axes of the sum to those of a value.
struct Place {
  ir::AffineMap fine;
  std::optional<ir::AffineMap> whole;  // the same from axes that are not split; nullopt where a reshape has merged such axes
};

// A weight, as elements are multiplied with it.
struct Factor {
  ValueId value;
  Place place;
};

// What a branch reads: the elements at `map` of a value. With `guard`, places beyond the value's bounds are read as 0. After a guard, a place `beyond` stands for no element of this value.
struct Reading {
  ValueId value;
  ir::AffineMap map;
  bool guard = false, beyond = false;
};

struct Branch {
  Branch(bool negative, std::vector<Factor> factors, ValueId made, Place place) : negative(negative), factors(std::move(factors)), made(made), place(std::move(place)) {}
  bool is_convolution() const { return kernel != ir::none_id; }

  bool negative;
  std::vector<Factor> factors;  // on the path to the sum
  ValueId made;  // what is added: a convolution's result, or elements as they are
  Place place;  // of `made`
  ValueId kernel = ir::none_id;  // a convolution's weight
  Dims form_dims;  // its sizes, with the axes that a reshape has merged
  std::vector<int> form;  // which axis each of these is
  Dims summed;
  std::vector<Reading> readings;  // the same elements, through fewer and fewer views
};

struct Constant {
  bool negative;
  std::vector<Factor> factors;
};

// True for an index that is an axis of the map.
bool has_unit_step(const ir::AffineMap::Axis&);
// Axes along which a weight varies.
std::set<uint32_t> axes_of(const ir::AffineMap&);

class Branches {
 public:
  Branches(const Graph& g, WeightValues& weights, const std::vector<int>& uses) : g_(g), weights_(weights), uses_(uses) {}
  // False where an addition is not a sum of branches, or of too many.
  bool find(const Node& sum);

  std::vector<Branch> branches;
  std::vector<Constant> constants;

 private:
  bool find_in(const Node& sum, const Dims& in);
  bool operands(const Node& sum, const Place& place, bool negative, const std::vector<Factor>& factors, int depth);
  bool visit(ValueId v, const Place& place, bool negative, std::vector<Factor> factors, int depth);
  std::optional<Place> after_view(const Node& n, const Place& place);
  // Notes that an axis of the sum is one of a reshape, which has merged it.
  void split_axes(const ir::AffineMap& map, const Dims& from, const Dims& to);
  // A depthwise convolution, as ops/convolution.cpp writes it.
  bool windows(Branch& b, const Node& sum);
  // A convolution as a product, or a linear layer.
  bool product(Branch& b, const Node& node);
  // `map` leads to axes of these sizes, or to more in front of them.
  bool kernel(Branch& b, ValueId weight, const ir::AffineMap& map, const Dims& sizes);
  bool read(Branch& b, ValueId v, ir::AffineMap map);

  const Graph& g_;
  WeightValues& weights_;
  const std::vector<int>& uses_;
  Dims axes_;  // of the sum, split
  std::optional<Dims> finer_;  // axes with which more branches are seen
};

}  // namespace ingot::lower
