// A result, or the value that must be stored before there can be one.
#pragma once
#include <optional>

#include "ir/graph.h"

namespace ingot::compile {

struct Missing {
  ir::ValueId value;
};

template <class T>
class Outcome {
 public:
  Outcome(T result) : result_(std::move(result)) {}
  Outcome(Missing missing) : missing_(missing) {}
  explicit operator bool() const { return result_.has_value(); }
  T& operator*() { return *result_; }
  const T& operator*() const { return *result_; }
  T* operator->() { return &*result_; }
  const T* operator->() const { return &*result_; }
  Missing missing() const { return missing_; }

 private:
  std::optional<T> result_;
  Missing missing_{ir::none_id};
};

}  // namespace ingot::compile
