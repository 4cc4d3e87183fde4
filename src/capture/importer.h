// torch.export's JSON -> captured graph: names to values, sizes to Dims, nodes to calls.
#pragma once
#include <functional>
#include <string>
#include <string_view>
#include <unordered_map>

#include "capture/capture.h"
#include "capture/expression.h"
#include "capture/json.h"
#include "capture/sizes.h"
#include "capture/tensor_meta.h"

namespace ingot::capture {

// Where a weight's bytes are: called once for each with its state-dict name, kind ("parameter", "buffer", "constant") and
// the meta the graph records. Fills data, bytes, keep, order and tied_to.
using WeightSource = std::function<void(ir::Weight&, bool constant, const TensorMeta&)>;

class Importer {
 public:
  // Kernels of the user's come from this process alone: a file could name any code.
  enum class From : uint8_t { file, process };
  Importer(WeightSource weights, From from) : weight_source_(std::move(weights)), from_(from) {}
  Model run(Json program);
  // Meta of a tensor in the archive's own form (weights' config files use it too).
  TensorMeta meta(Json m);

 private:
  // One graph's names: the model's own, or those of a region that is inlined (no_grad).
  struct Scope {
    std::unordered_map<std::string_view, Json> metas, sizes, bools, floats;
    std::unordered_map<std::string_view, ir::ValueId> values;
    std::unordered_map<std::string_view, ir::Dim> known_sizes;  // sizes handed into a region
  };
  struct Call {
    std::vector<ir::ValueId> in;
    ir::Attributes attributes;
  };

  Scope scope_of(Json graph);
  ir::Dim size_named(const Scope&, std::string_view name);
  ir::ValueId value_named(const Scope&, std::string_view name);
  const Json& meta_named(const Scope&, std::string_view name);
  void add_inputs(Json graph, Json signature, Scope&);
  void add_outputs(Json graph, Json signature, const Scope&);
  void add_nodes(Json graph, Scope&);
  void add_call(Json node, const std::string& target, Scope&);
  // A node of which only the tensors it reads and makes are known: it runs in torch.
  void add_opaque(Json node, const std::string& target, std::string reason, Scope&);
  void add_results(Call, const std::vector<std::string_view>& names, std::vector<ir::Type>, Scope&);
  void inline_region(Json node, std::string_view target, Scope&);
  // torch.cond and while_loop: a call with a captured graph of its own for each region.
  void add_control(Json node, const std::string& target, Scope&);
  ir::GraphRef inner_graph(Json graph, const std::vector<ir::Type>& operands, const Scope& outer);
  // .item() of an integer: a size that is read from data.
  void add_read(Json node, Scope&);
  ir::Attribute argument(Call&, const Scope&, Json arg);
  bool stays_on_its_device(Json inputs, const Scope&);
  void count_in_elements(Call& as_strided, Json inputs, const Scope&);
  ir::Attribute tensor(Call&, const Scope&, Json arg);
  ir::OriginId origin(Json node);
  // torch._check, and what torch assumed about sizes: checked when the model runs.
  void add_check(Json node, const Scope&);
  // torch._assert_async: a number that is read from data, and has to be 1.
  void add_assertion(Json node, const Scope&);
  void add_guards(Json program, Json signature, const Scope&);
  void add_condition(Condition, ir::OriginId);
  void find_writes();
  std::pair<TensorMeta, std::string> leaf(const Json& meta);
  void leave_to_torch(ir::ValueId, std::string reason);

  WeightSource weight_source_;
  From from_;
  Model model_;
  ir::Graph& g_ = model_.graph;
  Sizes sizes_{g_};
  std::unordered_map<ir::ValueId, std::string> foreign_;  // values of no type that engines have, and which
  int depth_ = 0;
  int inner_ = 0;  // how many regions of control flow are around the node at hand
};

}  // namespace ingot::capture
