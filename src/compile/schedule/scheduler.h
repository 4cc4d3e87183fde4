// The scheduler; each kind of site has its file.
#pragma once
#include <algorithm>

#include "compile/schedule/schedule.h"
#include "compile/schedule/writer.h"

namespace ingot::compile {

class Scheduler {
 public:
  explicit Scheduler(const StoragePlan& s) : s_(s), c_(*s.context), g_(s.graph()) { out_.buffers = s.buffers; }
  Schedule run();

 private:
  struct Choice {
    backend::EmittedStep step;
    Considered considered;
    std::vector<Rival> rivals = {};
    std::vector<std::string> alternatives = {};
    bool own_memory = false, reuses_memory = false;
  };
  // A site's operands: these, with their layouts. `encoding`: of B.
  std::vector<backend::Operand> described(const StepOperands&, const std::optional<ir::Encoding>& encoding = std::nullopt) const;
  // The offers for a site, of which nothing is emitted yet. If `body_may_go`, offers without the body count too, at the cost of a pass over the result; if `image_may_be_copied`, those that require it.
  struct Answer {
    backend::Offers offers;
    const backend::Offer* best = nullptr;  // the cheapest; null: `obstacle` says why there is none, or that the body must be split off
    std::optional<backend::Obstacle> obstacle = std::nullopt;
  };
  Answer ask(backend::Site&, bool body_may_go, bool image_may_be_copied = false) const;
  // The cheapest offer, emitted. No choice: `obstacle` says why, or the offer is to sum up in a fused body.
  struct Decision {
    std::optional<Choice> choice;
    std::optional<backend::Obstacle> obstacle = std::nullopt;
    std::optional<std::vector<backend::Wish>> wishes = std::nullopt;  // of the offer, if there is one

    bool by_sums() const { return !choice && wishes; }
    // True if there is no offer that reads a convolution's image in any order of its axes.
    bool copies_image() const { return !wishes || has(backend::channels_innermost) || has(backend::copied_channels_innermost); }
    bool copies_result() const { return wishes && has(backend::contiguous_rows); }

   private:
    bool has(const backend::Wish& w) const { return std::find(wishes->begin(), wishes->end(), w) != wishes->end(); }
  };
  Decision choose(backend::Site, bool body_may_go = false, bool image_may_be_copied = false) const;
  // Requires that the value is stored or, if it is already, that it is stored outside a concatenation.
  void need(ir::ValueId v);
  void need(Missing m) { need(m.value); }
  void push(Choice choice, StepOperands operands, uint32_t writes, std::string label, ir::OriginId origin);

  void node(ir::NodeId n);
  void root(uint32_t r);
  void fused(WrittenBody written, ir::OriginId origin);
  void gemm(WrittenBody written);
  // B of a GEMM: one matrix, the parts of a concatenated weight, or a packed weight.
  struct OperandB {
    std::vector<BufferView> parts = {};
    std::optional<backend::Packing> packed = std::nullopt;
  };
  Outcome<OperandB> operand_b(ir::NodeId gemm, const ir::Dims& batch);
  struct GemmReads;
  Outcome<GemmReads> gemm_reads(ir::NodeId gemm);
  backend::Site gemm_site(const ir::Node& gemm, const GemmReads&, const WrittenBody&) const;
  // The value to store so that an offer can take the GEMM; none_id if storing cannot help. `instead`: the value to store if no kernel has the prologue or the map of A.
  ir::ValueId stored_for(std::optional<backend::Obstacle>, const ir::Node& gemm, ir::ValueId anchor, ir::ValueId instead) const;
  void gemm_by_sums(WrittenBody written, const BufferView& a, const BufferView& b);
  void depthwise_conv(WrittenBody written);
  void attention(ir::NodeId n);
  void plain(ir::NodeId n);
  void external(ir::NodeId n);
  void pack(size_t output);
  void pack_early(size_t first);
  void copy(const StoragePlan&, ir::ValueId v, const BufferView& target, std::string label);
  void copy_outputs();
  std::set<size_t> conflicts() const;
  void reuse_operands();
  bool are_independent(const ScheduledStep&, const ScheduledStep&) const;
  bool are_alike(const ScheduledStep&, const ScheduledStep&) const;
  void gather_alike();
  void join_steps();
  bool same_memory(const BufferView& a, const BufferView& b) const;
  bool is_aligned(const BufferView&) const;
  bool is_constant(const BufferView& p) const;
  BufferView packed(uint32_t derived);
  StepResult itself(ir::ValueId v) const { return {v, s_.places[v], v, s_.places[v]}; }

  const StoragePlan& s_;
  const Context& c_;
  const ir::Graph& g_;
  Schedule out_;
};

}  // namespace ingot::compile
