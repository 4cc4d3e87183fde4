#include "lower/expand/check.h"

#include <algorithm>

#include "base/error.h"

namespace ingot::lower {

namespace {

std::string show(const ir::Type& t, const ir::Graph& g) {
  std::string s = std::string(name_of(t.dtype)) + "[";
  for (size_t i = 0; i < t.dims.size(); ++i) s += (i ? ", " : "") + t.dims[i].text(g.symbols);
  return s + "]";
}

// What autocast casts first of all.
bool is_product(std::string_view target) {
  constexpr std::string_view names[] = {"linear", "matmul", "mm", "bmm", "addmm", "baddbmm", "addbmm", "conv1d", "conv2d", "conv3d", "convolution", "scaled_dot_product_attention"};
  std::string_view name = target.substr(target.find('.') + 1);
  return std::find(std::begin(names), std::end(names), name.substr(0, name.find('.'))) != std::end(names);
}

}  // namespace

void check_type(Expansion& e, const ir::Node& node, const std::string& target, const ir::Type& recorded, const ir::Type& inferred) {
  auto mismatch = [&]() -> void {
    throw Error(Code::internal, fmt::format("{} ({}): torch recorded {}, the operator table infers {}", node_name(e, node), target, show(recorded, e.to), show(inferred, e.to)),
                where(e, node), "This is a fault of ingot's operator table; please report it.");
  };
  if (recorded.dtype != inferred.dtype && ir::size_of(recorded.dtype) == 2 && is_float(recorded.dtype) && is_product(target)) {
    fail(Code::unsupported,
         "torch recorded {}, its operands give {}: the program was exported under torch.autocast, whose casts torch.export does not write down (export it outside, or let "
         "ingot.compile read it with torch)",
         show(recorded, e.to), show(inferred, e.to));
  }
  if (recorded.dtype != inferred.dtype || recorded.dims.size() != inferred.dims.size()) mismatch();
  for (size_t i = 0; i < recorded.dims.size(); ++i) {
    switch (known_equal(recorded.dims[i], inferred.dims[i], e.to.symbols)) {
      case ir::Truth::yes: break;
      case ir::Truth::no: mismatch(); break;
      case ir::Truth::unknown:
        e.to.checks.push_back(
            {inferred.dims[i], recorded.dims[i], ir::Check::equal, node.origin, fmt::format("axis {} of {} has the size recorded at capture", i, node_name(e, node))});
    }
  }
}

ir::Handle with_known_sizes(const ir::Handle& x, const ir::Dims& recorded) {
  ir::AffineMap map{x.dims(), {}, std::nullopt};
  bool changed = false;
  for (uint32_t i = 0; i < recorded.size(); ++i) {
    const bool is_new = recorded[i].is_constant() && !x.dims()[i].is_constant();
    if (is_new) map.dims[i] = recorded[i];
    map.axes.push_back({0, {{i, 1}}});
    changed = changed || is_new;
  }
  return changed ? ir::view(x, std::move(map)) : x;
}

}  // namespace ingot::lower
