// Writes a plan to a file. Identical plans give identical bytes: no times, no paths, no undefined padding.
#include <algorithm>
#include <cstring>
#include <map>

#include "base/atomic_file.h"
#include "base/error.h"
#include "base/hash.h"
#include "plan/file.h"
#include "plan/made_here.h"
#include "plan/plan.h"
#include "plan_generated.h"

namespace ingot::plan {

namespace {

using flatbuffers::FlatBufferBuilder;
using flatbuffers::Offset;

class Writer {
 public:
  std::vector<uint8_t> metadata(const Plan& plan, const std::vector<uint64_t>& offsets, Values values) {
    std::vector<Offset<fb::Function>> functions;
    for (const Function& f : plan.functions) functions.push_back(function(f));
    std::vector<Offset<fb::Target>> targets;
    for (const ForTarget& t : plan.targets) targets.push_back(target(t));
    std::vector<Offset<fb::Weight>> weights;
    for (size_t i = 0; i < plan.weights.size(); ++i) {
      const Weight& w = plan.weights[i];
      Weight::Source source = values == Values::embedded ? w.source : Weight::Source::host;
      weights.push_back(fb::CreateWeight(b_, b_.CreateString(w.name), static_cast<uint8_t>(w.dtype), b_.CreateVector(w.dims), b_.CreateString(w.tied_to),
                                         static_cast<uint8_t>(source), offsets[i], w.bytes, b_.CreateVector(w.order)));
    }
    std::vector<Offset<fb::Origin>> origins;
    for (const Origin& o : plan.origins) {
      origins.push_back(fb::CreateOrigin(b_, b_.CreateString(o.file), b_.CreateString(o.code), b_.CreateString(o.module), b_.CreateString(o.target), o.line));
    }
    std::vector<Offset<fb::Pair>> provenance;
    for (const auto& [key, value] : plan.provenance) provenance.push_back(fb::CreatePair(b_, b_.CreateString(key), b_.CreateString(value)));
    auto f = b_.CreateVector(functions);
    auto w = b_.CreateVector(weights);
    auto t = b_.CreateVector(targets);
    auto o = b_.CreateVector(origins);
    auto s = b_.CreateString(plan.signature);
    auto p = b_.CreateVector(provenance);
    b_.Finish(fb::CreatePlan(b_, f, t, w, o, s, p));
    return {b_.GetBufferPointer(), b_.GetBufferPointer() + b_.GetSize()};
  }

 private:
  Offset<fb::Function> function(const Function& f) {
    std::vector<Offset<fb::Symbol>> symbols;
    for (const Symbol& s : f.symbols) symbols.push_back(fb::CreateSymbol(b_, b_.CreateString(s.name), s.min, s.opt, s.max));
    std::vector<Offset<fb::SizeOp>> sizes;
    for (const SizeInstruction& i : f.sizes.code) sizes.push_back(fb::CreateSizeOp(b_, static_cast<uint8_t>(i.op), i.a, i.b, i.value));
    std::vector<Offset<fb::Binding>> bindings;
    for (const Binding& x : f.bindings) {
      bindings.push_back(fb::CreateBinding(b_, b_.CreateString(x.name), static_cast<uint8_t>(x.dtype), b_.CreateVector(x.dims), b_.CreateVector(x.order),
                                           static_cast<uint8_t>(x.kind), x.written, x.weight));
    }
    std::vector<Offset<fb::Check>> checks;
    for (const Check& c : f.checks) checks.push_back(fb::CreateCheck(b_, c.left, c.right, c.equal, c.origin, b_.CreateString(c.why)));
    std::vector<Offset<fb::Program>> programs;
    for (const Program& p : f.programs) programs.push_back(program(p));
    auto n = b_.CreateString(f.name), g = b_.CreateString(f.graph);
    auto a1 = b_.CreateVector(symbols);
    auto a2 = b_.CreateVector(sizes);
    auto a3 = b_.CreateVector(bindings);
    auto a4 = b_.CreateVector(checks);
    auto a5 = b_.CreateVector(programs);
    Offset<flatbuffers::Vector<Offset<fb::Region>>> a6 = 0;
    Offset<flatbuffers::Vector<Offset<fb::Value>>> a7 = 0;
    if (!f.regions.empty()) {
      a6 = regions(f.regions);
      std::vector<Offset<fb::Value>> values;
      for (const Value& v : f.values) values.push_back(fb::CreateValue(b_, static_cast<uint8_t>(v.dtype), b_.CreateVector(v.dims)));
      a7 = b_.CreateVector(values);
    }
    return fb::CreateFunction(b_, n, a1, a2, a3, a4, g, a5, a6, a7);
  }

  Offset<flatbuffers::Vector<Offset<fb::Region>>> regions(const std::vector<Region>& list) {
    std::vector<Offset<fb::Region>> out;
    for (const Region& r : list) {
      std::vector<Offset<fb::Call>> calls;
      for (const Call& c : r.calls) calls.push_back(fb::CreateCall(b_, c.function, b_.CreateVector(c.values), b_.CreateVector(c.symbols)));
      std::vector<Offset<fb::Carried>> carried;
      for (const Region::Carried& c : r.carried) carried.push_back(fb::CreateCarried(b_, c.first, c.value, c.next));
      std::vector<Offset<fb::Read>> reads;
      for (const Region::Read& x : r.reads) reads.push_back(fb::CreateRead(b_, x.value, x.symbol, x.origin, x.bound));
      auto a1 = b_.CreateVector(calls);
      auto a2 = b_.CreateVector(carried);
      auto a3 = b_.CreateVector(reads);
      out.push_back(fb::CreateRegion(b_, static_cast<uint8_t>(r.kind), r.condition, a1, a2, a3, r.count));
    }
    return b_.CreateVector(out);
  }

  Offset<fb::Program> program(const Program& p) {
    std::vector<Offset<fb::Buffer>> buffers;
    for (const Buffer& x : p.buffers) buffers.push_back(fb::CreateBuffer(b_, static_cast<uint8_t>(x.kind), x.index, x.bytes, x.first, x.last));
    std::vector<Offset<fb::Step>> steps;
    for (const Step& s : p.steps) {
      std::vector<Offset<fb::Operand>> operands;
      for (const OperandView& o : s.operands) {
        operands.push_back(fb::CreateOperand(b_, o.buffer, static_cast<uint8_t>(o.dtype), o.offset, b_.CreateVector(o.dims), b_.CreateVector(o.strides)));
      }
      auto list = b_.CreateVector(operands);
      auto constants = b_.CreateVector(reinterpret_cast<const uint8_t*>(s.constants.data()), s.constants.size());
      const auto alternatives = s.alternatives.empty() ? Offset<flatbuffers::Vector<Offset<flatbuffers::String>>>() : b_.CreateVectorOfStrings(s.alternatives);
      steps.push_back(fb::CreateStep(b_, b_.CreateString(s.kernel), list, b_.CreateVector(s.sizes), constants, s.origin, b_.CreateString(s.label), s.writes, alternatives));
    }
    auto a1 = b_.CreateVector(buffers);
    auto a2 = b_.CreateVector(steps);
    return fb::CreateProgram(b_, a1, a2);
  }

  Offset<fb::Target> target(const ForTarget& t) {
    auto prepare = function(t.prepare);
    std::vector<Offset<fb::Derived>> derived;
    for (const Derived& d : t.derived) derived.push_back(fb::CreateDerived(b_, b_.CreateString(d.name), d.bytes));
    std::vector<Offset<fb::Code>> code;
    for (const DeviceCode& c : t.code) {
      auto kernels = b_.CreateVectorOfStrings(c.kernels);
      auto image = b_.CreateVector(reinterpret_cast<const uint8_t*>(c.image.data()), c.image.size());
      code.push_back(fb::CreateCode(b_, static_cast<uint8_t>(c.form), c.architecture, kernels, image));
    }
    auto n = b_.CreateString(t.target.text());
    auto a1 = b_.CreateVector(derived);
    auto a2 = b_.CreateVector(code);
    std::vector<Offset<fb::Timing>> timings;
    for (const Timing& x : t.timings) timings.push_back(fb::CreateTiming(b_, b_.CreateString(x.machine), b_.CreateString(x.problem), b_.CreateString(x.choice)));
    auto a3 = b_.CreateVector(timings);
    return fb::CreateTarget(b_, n, prepare, a1, a2, a3);
  }

  FlatBufferBuilder b_{1 << 16};
};

const std::vector<std::byte> zeros(page, std::byte{0});

std::span<const std::byte> padding(const Weight& w) { return std::span(zeros).first((64 - w.bytes % 64) % 64); }

// The file in parts: header and metadata in `head`, weights in place.
struct Parts {
  std::vector<std::byte> head;
  std::vector<std::span<const std::byte>> list;
};

// The least revision that has all kernels of the plan's programs.
uint32_t revision_of(const Plan& plan) {
  auto groups = [](const Function& f) {
    return std::any_of(f.programs.begin(), f.programs.end(),
                       [](const Program& p) { return std::any_of(p.steps.begin(), p.steps.end(), [](const Step& s) { return s.kernel == "matmul_pack_groups"; }); });
  };
  return std::any_of(plan.targets.begin(), plan.targets.end(), [&](const ForTarget& t) { return groups(t.prepare); }) ? program_revision : oldest_programs;
}

Parts layout(const Plan& plan, Values values) {
  // Tied weights share their bytes. Offsets count from the start of the weights section.
  std::vector<uint64_t> offsets(plan.weights.size(), 0);
  std::map<std::pair<const std::byte*, uint64_t>, uint64_t> where;
  std::vector<size_t> order;
  uint64_t total = 0;
  for (size_t i = 0; values != Values::unread && i < plan.weights.size(); ++i) {
    const Weight& w = plan.weights[i];
    if (auto known = where.find({w.data, w.bytes}); known != where.end()) {
      offsets[i] = known->second;
      continue;
    }
    if (w.data == nullptr && w.bytes > 0) {
      if (values == Values::left_out) continue;
      fail(Code::invalid_input, "weight \"{}\" has no data to save", w.name);
    }
    offsets[i] = total;
    if (w.bytes > 0) where[{w.data, w.bytes}] = total;
    order.push_back(i);
    total += (w.bytes + 63) / 64 * 64;
  }
  if (values != Values::embedded) std::fill(offsets.begin(), offsets.end(), 0), total = 0;
  std::vector<uint8_t> metadata = Writer().metadata(plan, offsets, values);
  const bool code = std::any_of(plan.targets.begin(), plan.targets.end(), [](const ForTarget& t) { return !t.code.empty(); });
  if (code && plan.code_from == CodeFrom::here) remember_made_here(std::as_bytes(std::span(metadata)));
  Header h{};
  h.magic = file_magic;
  h.major = format_major;
  h.minor = format_minor;
  h.programs = revision_of(plan);
  h.metadata_bytes = metadata.size();
  h.weights_bytes = total;
  h.metadata_hash = hash128(std::as_bytes(std::span(metadata)));
  h.weights_hash = weights_hash(plan, order);  // also of weights that are left out, so that programs which differ only in weights have different plans
  h.header_hash = header_hash(h);
  Parts parts;
  parts.head.resize(h.weights_offset());
  std::memcpy(parts.head.data(), &h, sizeof h);
  std::memcpy(parts.head.data() + sizeof h, metadata.data(), metadata.size());
  parts.list.push_back(parts.head);
  if (values != Values::embedded) return parts;
  for (size_t i : order) {
    const Weight& w = plan.weights[i];
    parts.list.push_back({w.data, w.bytes});
    parts.list.push_back(padding(w));
  }
  return parts;
}

}  // namespace

uint64_t header_hash(const Header& h) { return hash64(std::as_bytes(std::span(&h, 1)).first(offsetof(Header, header_hash))); }

Hash128 weights_hash(const Plan& plan, std::span<const size_t> weights) {
  Hasher128 hasher;
  for (size_t i : weights) {
    const Weight& w = plan.weights[i];
    hasher.add({w.data, w.bytes});
    hasher.add(padding(w));
  }
  return hasher.hash();
}

std::vector<std::byte> write(const Plan& plan, Values values) {
  Parts parts = layout(plan, values);
  std::vector<std::byte> out;
  for (auto part : parts.list) out.insert(out.end(), part.begin(), part.end());
  return out;
}

void write_file(const Plan& plan, const std::string& path) {
  Parts parts = layout(plan, plan.values);
  write_atomically(path, parts.list);
}

}  // namespace ingot::plan
