#include "base/error.h"
#include "compile/schedule/scheduler.h"

namespace ingot::compile {

using namespace ir;

void Scheduler::attention(NodeId n) {
  const Node& node = g_.nodes[n];
  const Dims& out = g_.type(node.out[0]).dims;
  Dims batch(out.begin(), out.end() - 2);
  std::vector<BufferView> operands;
  for (size_t i = 0; i < 3; ++i) {
    auto place = s_.require(node.in[i]);
    if (!place) return need(place.missing());
    operands.push_back(with_batch(std::move(*place), batch));
  }
  const StridedLayout &q = operands[0].layout, &k = operands[1].layout, &v = operands[2].layout;
  backend::Attention site{g_.type(node.in[0]).dtype};
  site.scale = node.attributes.number("scale");
  site.causal = node.attributes.boolean("causal");
  site.batch_rank = batch.size();
  site.s = q.dims[batch.size()];
  site.t = k.dims[batch.size()];
  site.d = q.dims.back();
  site.e = v.dims.back();
  std::string label = "attention";
  WrittenBody mask;
  if (node.in.size() == 4) {
    Dims scores = batch;
    scores.push_back(site.s);
    scores.push_back(site.t);
    auto body = write_mask(s_, node.in[3], scores, g_.type(node.out[0]).dtype == DType::f64 ? DType::f64 : DType::f32);
    if (!body) return need(body.missing());
    mask = std::move(*body);
    label += mask.label == "copy" ? " + mask" : " + mask(" + mask.label + ")";
  }
  if (site.causal) label += ", causal";
  operands.insert(operands.end(), mask.operands.begin(), mask.operands.end());
  operands.push_back(with_batch(s_.places[node.out[0]], batch));
  Decision d = choose({std::move(site), node.in.size() == 4 ? &mask.body : nullptr, layouts_of(operands), are_aligned(operands)});
  using backend::Obstacle;
  for (const auto& [obstacle, operand] : {std::pair(Obstacle::a, 0), std::pair(Obstacle::b, 1), std::pair(Obstacle::c, 2)}) {
    if (d.obstacle == obstacle && !s_.stored[node.in[static_cast<size_t>(operand)]]) return need(node.in[static_cast<size_t>(operand)]);
  }
  if (!d.choice) fail(Code::unsupported, "no backend has a kernel for attention");
  push(std::move(*d.choice), std::move(operands), 1, std::move(label), node.origin);
  out_.steps.back().results = {itself(node.out[0])};
}

}  // namespace ingot::compile
