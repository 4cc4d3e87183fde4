#include "lower/external.h"

#include <algorithm>

#include "base/error.h"
#include "lower/lower.h"

namespace ingot::lower {

using ir::Attribute;

namespace {

constexpr std::string_view prefix = "external_";

std::string where(const ir::Graph& g, const ir::Node& n) { return n.origin == ir::none_id ? "" : g.origins[n.origin].text(); }

}  // namespace

bool has_kernel(const ir::Node& call) { return call.attributes.find("external_name") != nullptr; }

std::vector<ir::Handle> expand_external(ir::Graph& to, const ir::Graph& captured, const ir::Node& call, const std::vector<ir::ValueId>& in) {
  const ir::Attributes& given = call.attributes;
  ir::Attributes made;
  for (const auto& [name, value] : given) {
    if (name.starts_with(prefix) && name != "external_arguments") made.set(name.substr(prefix.size()), value);
  }
  std::vector<ir::ValueId> operands;
  ir::List numbers;
  for (int64_t k = 0; k < given.integer("external_arguments"); ++k) {
    const Attribute& value = given.at(fmt::format("argument_{}", k));
    if (const auto* ref = std::get_if<ir::Ref>(&value.value)) {
      if (ref->index >= in.size()) fail(Code::format, "argument {} of kernel {} is missing", k, given.string("external_name"));
      operands.push_back(in[ref->index]);
    } else {
      numbers.push_back(value);
    }
  }
  made.set("numbers", std::move(numbers));
  ir::List dtypes, dims;
  for (ir::ValueId v : call.out) {
    const ir::Type& t = captured.type(v);
    if (!is_canonical(t.dtype)) fail(Code::unsupported, "kernels take no {}", torch_name_of(t.dtype));
    dtypes.push_back(t.dtype);
    dims.push_back(ir::to_attribute(t.dims));
  }
  for (ir::ValueId v : operands) {
    if (!is_canonical(to.type(v).dtype)) fail(Code::unsupported, "kernels take no {}", torch_name_of(to.type(v).dtype));
  }
  made.set("dtypes", std::move(dtypes));
  made.set("dims", std::move(dims));
  const ir::NodeId id = to.add_node(ir::Op::external, operands, made, ir::infer(to, ir::Op::external, operands, made));
  std::vector<ir::Handle> out;
  for (ir::ValueId v : to.nodes[id].out) out.emplace_back(&to, v);
  return out;
}

std::vector<Missing> kernels_not_for(const ir::Graph& captured, std::span<const Target> targets) {
  std::vector<Missing> out;
  for (ir::NodeId n = 0; n < captured.nodes.size(); ++n) {
    const ir::Node& node = captured.nodes[n];
    if (node.op != ir::Op::call || !has_kernel(node)) continue;
    for (const Target& t : targets) {
      if (node.attributes.find(t.kind == Target::Kind::cuda ? "external_cuda" : "external_cpu") != nullptr) continue;
      out.push_back({node.attributes.string("target"), fmt::format("its kernel is not registered for {} (ingot.register_kernel)", t.text()), where(captured, node), n});
      break;
    }
  }
  return out;
}

}  // namespace ingot::lower
