// Complex numbers while calls are expanded: pairs of real values. A canonical graph has none.
#pragma once
#include <optional>

#include "ir/compose.h"

namespace ingot::ops {

struct Complex {
  ir::Handle re;
  std::optional<ir::Handle> im;  // none: the number is real
  ir::Handle imaginary() const;  // 0 for a real number
};
Complex conjugate(const Complex&);

// One value for both parts, of a complex type. It has no kernel: parts() alone reads it, through views too.
ir::Handle joined(const Complex&);
Complex parts(const ir::Handle&);

// Complex numbers in memory: a real tensor with one more axis, whose two elements are the parts (torch.view_as_real).
ir::Handle interleaved(const ir::Handle& complex);
ir::Handle of_interleaved(const ir::Handle& real);

// Whether torch's type of any of these is complex.
bool has_complex(const ir::Graph&, const ir::Node&);

}  // namespace ingot::ops
