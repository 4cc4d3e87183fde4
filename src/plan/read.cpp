// Reads a plan from a file. The bytes are not trusted: every offset, index and number is checked before use.
#include <algorithm>
#include <cctype>
#include <cstring>
#include <set>

#include "base/error.h"
#include "base/hash.h"
#include "base/order.h"
#include "base/text.h"
#include "plan/file.h"
#include "plan/made_here.h"
#include "plan/plan.h"
#include "plan/regions.h"
#include "plan/signature.h"
#include "plan_generated.h"

namespace ingot::plan {

namespace {

constexpr const char* repair = "give a plan that `ingot compile` or ingot.save wrote; copy or compile a damaged one again";

DType dtype(uint8_t v) {
  if (v >= ir::dtype_count || !is_canonical(static_cast<ir::DType>(v))) fail(Code::format, "the plan names an unknown dtype ({})", v);
  return static_cast<DType>(v);
}

template <class Vector, class F>
void each(const Vector* v, F fn) {
  if (v == nullptr) return;
  for (const auto* x : *v) {
    if (x == nullptr) fail(Code::format, "the plan has an empty entry");
    fn(*x);
  }
}

// Parses metadata. Entries of a file may overlap, so that a small file describes a large plan: what is copied is bounded by the size of the file.
class Reader {
 public:
  explicit Reader(size_t bytes) : left_(bytes) {}

  std::string text(const flatbuffers::String* s, const char* what) {
    if (s == nullptr) return {};
    spend(s->size());
    std::string_view found(s->c_str(), s->size());
    // Other programs read names and texts as UTF-8, and up to the first 0.
    if (std::optional<size_t> at = find_bad_utf8(found)) fail(Code::format, "the plan is damaged: {} is not UTF-8 text at its byte {}", what, *at);
    return std::string(found);
  }

  // A text that is shown on terminals unescaped.
  std::string name(const flatbuffers::String* s, const char* what) {
    std::string found = text(s, what);
    if (has_controls(found)) fail(Code::format, "the plan is damaged: {} has control characters", what);
    return found;
  }

  Function function(const fb::Function* f) {
    Function out;
    if (f == nullptr) return out;
    out.name = name(f->name(), "the name of a function");
    each(f->symbols(), [&](const fb::Symbol& s) {
      out.symbols.push_back({name(s.name(), "the name of a size"), s.min(), s.opt(), s.max()});
      // Names appear in expressions that other programs may parse.
      const std::string& symbol = out.symbols.back().name;
      constexpr size_t longest = 200;
      if (symbol.size() > longest) fail(Code::format, "the plan has a size whose name is {} long", symbol.size());
      for (char c : symbol) {
        if (!std::isalnum(static_cast<unsigned char>(c)) && c != '_') fail(Code::format, "the plan has a size named \"{}\"", symbol);
      }
    });
    each(f->sizes(), [&](const fb::SizeOp& i) { out.sizes.code.push_back({static_cast<SizeInstruction::Op>(i.op()), i.a(), i.b(), i.value()}); });
    each(f->bindings(), [&](const fb::Binding& b) {
      if (b.kind() > static_cast<uint8_t>(Binding::Kind::state)) fail(Code::format, "a binding of the plan is of an unknown kind");
      out.bindings.push_back(
          {name(b.name(), "the name of a binding"), dtype(b.dtype()), numbers(b.dims()), numbers(b.order()), static_cast<Binding::Kind>(b.kind()), b.written(), b.weight()});
    });
    each(f->programs(), [&](const fb::Program& p) { out.programs.push_back(program(p)); });
    out.graph = text(f->graph(), "a graph");
    each(f->checks(), [&](const fb::Check& c) { out.checks.push_back({c.left(), c.right(), c.equal(), c.origin(), text(c.why(), "the reason of a check")}); });
    each(f->regions(), [&](const fb::Region& r) { out.regions.push_back(region(r)); });
    each(f->values(), [&](const fb::Value& v) { out.values.push_back({dtype(v.dtype()), numbers(v.dims())}); });
    return out;
  }

  ForTarget target(const fb::Target& t) {
    ForTarget out;
    const std::string target = name(t.name(), "the name of a target");
    const std::optional<Target> known = parse_target(target);
    if (!known) fail(Code::format, "the plan has programs for \"{}\", which is not a target", target);
    out.target = *known;
    out.prepare = function(t.prepare());
    uint64_t derived = 0;
    each(t.derived(), [&](const fb::Derived& d) {
      constexpr uint64_t max_bytes = uint64_t{1} << 46;
      if (d.bytes() > max_bytes || (derived += d.bytes()) > max_bytes) fail(Code::format, "a derived weight of the plan has an impossible size");
      out.derived.push_back({name(d.name(), "the name of a derived weight"), d.bytes()});
    });
    each(t.code(), [&](const fb::Code& c) {
      if (c.form() > static_cast<uint8_t>(DeviceCode::Form::portable)) fail(Code::format, "code of the plan has an unknown form");
      DeviceCode code{static_cast<DeviceCode::Form>(c.form()), c.architecture(), {}, {}};
      each(c.kernels(), [&](const flatbuffers::String& k) { code.kernels.push_back(name(&k, "the name of a kernel")); });
      code.image = bytes(c.image());
      out.code.push_back(std::move(code));
    });
    each(t.timings(), [&](const fb::Timing& x) { out.timings.push_back({text(x.machine(), "a timing"), text(x.problem(), "a timing"), text(x.choice(), "a timing")}); });
    return out;
  }

  // `section` is the weights section; weights of the plan point into it.
  Weight weight(const fb::Weight& w, std::span<const std::byte> section) {
    Weight out;
    out.name = name(w.name(), "the name of a weight");
    out.dtype = dtype(w.dtype());
    out.dims = numbers(w.dims());
    out.order = numbers(w.order());
    out.tied_to = name(w.tied_to(), "the name of a weight");
    out.bytes = w.bytes();
    int64_t count = static_cast<int64_t>(ir::size_of(out.dtype));
    if (out.dims.size() > 64) fail(Code::format, "weight \"{}\" of the plan has an impossible rank", out.name);
    for (int64_t d : out.dims) {
      if (d < 0 || __builtin_mul_overflow(count, d, &count)) fail(Code::format, "weight \"{}\" of the plan has impossible sizes", out.name);
    }
    if (!out.order.empty() && !is_permutation(out.order, out.dims.size())) fail(Code::format, "the order of weight \"{}\" of the plan is not a permutation of its axes", out.name);
    if (static_cast<uint64_t>(count) != out.bytes) fail(Code::format, "weight \"{}\" of the plan has {} bytes, its sizes need {}", out.name, out.bytes, count);
    if (w.source() != static_cast<uint8_t>(Weight::Source::embedded) && w.source() != static_cast<uint8_t>(Weight::Source::host)) {
      fail(Code::format, "weight \"{}\" of the plan comes from an unknown source", out.name);
    }
    out.source = static_cast<Weight::Source>(w.source());
    if (out.source == Weight::Source::host) return out;
    if (w.offset() % 64 != 0) fail(Code::format, "weight \"{}\" of the plan is not aligned", out.name);
    if (w.offset() > section.size() || out.bytes > section.size() - w.offset()) fail(Code::format, "weight \"{}\" is outside the plan", out.name);
    out.data = section.data() + w.offset();
    return out;
  }

 private:
  void spend(size_t bytes) {
    if (bytes > left_) fail(Code::format, "the plan is damaged: entries of its metadata overlap");
    left_ -= bytes;
  }

  // Copied as bytes, since flatbuffers' verifier allows unaligned 64-bit elements.
  template <class T>
  std::vector<T> numbers(const flatbuffers::Vector<T>* v) {
    std::vector<T> out;
    if (v == nullptr || v->size() == 0) return out;
    spend(v->size() * sizeof(T));
    out.resize(v->size());
    std::memcpy(out.data(), v->Data(), out.size() * sizeof(T));
    return out;
  }

  std::vector<std::byte> bytes(const flatbuffers::Vector<uint8_t>* v) {
    if (v == nullptr) return {};
    spend(v->size());
    const auto* data = reinterpret_cast<const std::byte*>(v->data());
    return {data, data + v->size()};
  }

  Region region(const fb::Region& r) {
    if (r.kind() > static_cast<uint8_t>(Region::Kind::loop)) fail(Code::format, "a region of the plan is of an unknown kind");
    Region out{static_cast<Region::Kind>(r.kind()), r.condition(), {}, {}, {}, r.count()};
    each(r.calls(), [&](const fb::Call& c) { out.calls.push_back({c.function(), numbers(c.values()), numbers(c.symbols())}); });
    each(r.carried(), [&](const fb::Carried& c) { out.carried.push_back({c.first(), c.value(), c.next()}); });
    each(r.reads(), [&](const fb::Read& x) { out.reads.push_back({x.value(), x.symbol(), x.origin(), x.bound()}); });
    return out;
  }

  Program program(const fb::Program& p) {
    Program out;
    each(p.buffers(), [&](const fb::Buffer& b) {
      if (b.kind() > static_cast<uint8_t>(Buffer::Kind::derived)) fail(Code::format, "a buffer of the plan is of an unknown kind");
      out.buffers.push_back({static_cast<Buffer::Kind>(b.kind()), b.index(), b.bytes(), b.first(), b.last()});
    });
    each(p.steps(), [&](const fb::Step& s) {
      Step step;
      step.kernel = name(s.kernel(), "the kernel of a step");
      each(s.alternatives(), [&](const flatbuffers::String& k) { step.alternatives.push_back(name(&k, "an alternative kernel of a step")); });
      each(s.operands(), [&](const fb::Operand& o) { step.operands.push_back({o.buffer(), dtype(o.dtype()), o.offset(), numbers(o.dims()), numbers(o.strides())}); });
      step.sizes = numbers(s.sizes());
      step.constants = bytes(s.constants());
      step.origin = s.origin();
      step.label = name(s.label(), "the label of a step");
      step.writes = s.writes();
      out.steps.push_back(std::move(step));
    });
    return out;
  }

  size_t left_;
};

constexpr size_t max_rank = 24;

void verify_function(const Plan& plan, const Function& f) {
  auto bad = [&](const std::string& what) { fail(Code::format, "function \"{}\" of the plan is damaged: {}", f.name, what); };
  ingot::verify(f.sizes, f.symbols.size());
  auto size = [&](uint32_t s, const char* what) {
    if (s >= f.sizes.code.size()) bad(std::string(what) + " names a size that does not exist");
  };
  for (const Symbol& s : f.symbols) {
    if (s.min < 0 || s.min > s.opt || s.opt > s.max) bad("size " + s.name + " has an impossible range");
  }
  for (size_t i = 0; i < f.bindings.size(); ++i) {
    const Binding& b = f.bindings[i];
    if (i > 0 && b.kind < f.bindings[i - 1].kind) bad("its bindings are not inputs, then outputs, then states");
    if (b.dims.size() > max_rank) bad("a binding has an impossible rank");
    for (uint32_t d : b.dims) size(d, "a binding");
    if (!b.order.empty() && (b.kind != Binding::Kind::input || !is_permutation(b.order, b.dims.size()))) bad("the order of a binding is not a permutation of an input's axes");
    if (b.kind == Binding::Kind::state) {
      if (b.weight >= plan.weights.size()) bad("a state has no first value");
      const Weight& w = plan.weights[b.weight];
      bool same = w.dtype == b.dtype && w.order.empty() && w.dims.size() == b.dims.size();
      for (size_t d = 0; same && d < b.dims.size(); ++d) {
        const SizeInstruction& s = f.sizes.code[b.dims[d]];
        same = s.op == SizeInstruction::Op::constant && s.value == w.dims[d];
      }
      if (!same) bad("a state is not like its first value");
    }
  }
  for (const Check& c : f.checks) {
    size(c.left, "a check");
    size(c.right, "a check");
    if (c.origin != UINT32_MAX && c.origin >= plan.origins.size()) bad("a check names an origin that does not exist");
  }
}

void verify_program(const Plan& plan, const ForTarget& target, const Function& f, const Program& p) {
  auto bad = [&](const std::string& what) { fail(Code::format, "function \"{}\" of the plan is damaged: {}", f.name, what); };
  auto size = [&](uint32_t s, const char* what) {
    if (s >= f.sizes.code.size()) bad(std::string(what) + " names a size that does not exist");
  };
  for (const Buffer& b : p.buffers) {
    size(b.bytes, "a buffer");
    size_t limit = b.kind == Buffer::Kind::binding   ? f.bindings.size()
                   : b.kind == Buffer::Kind::weight  ? plan.weights.size()
                   : b.kind == Buffer::Kind::derived ? target.derived.size()
                                                     : 1;
    if (b.kind != Buffer::Kind::arena && b.index >= limit) bad("a buffer names what does not exist");
    if (b.kind == Buffer::Kind::arena && (b.first > b.last || (b.last >= p.steps.size() && b.last > 0))) bad("a buffer has an impossible life");
  }
  for (size_t n = 0; n < p.steps.size(); ++n) {
    const Step& s = p.steps[n];
    if (s.writes == 0 || s.writes > s.operands.size()) bad("a step writes nothing");
    for (uint32_t x : s.sizes) size(x, "a step");
    for (size_t k = 0; k < s.operands.size(); ++k) {
      const OperandView& o = s.operands[k];
      if (o.buffer >= p.buffers.size()) bad("a step names a buffer that does not exist");
      size(o.offset, "an operand");
      for (uint32_t d : o.dims) size(d, "an operand");
      for (uint32_t d : o.strides) size(d, "an operand");
      if (o.dims.size() != o.strides.size() || o.dims.size() > max_rank) bad("an operand has an impossible rank");
      const Buffer& b = p.buffers[o.buffer];
      bool written = k >= s.operands.size() - s.writes;
      if (b.kind == Buffer::Kind::arena && (n < b.first || n > b.last)) bad("a step uses a buffer outside its life");
      bool writable = b.kind == Buffer::Kind::arena || (b.kind == Buffer::Kind::derived && &f == &target.prepare) ||
                      (b.kind == Buffer::Kind::binding && (f.bindings[b.index].kind != Binding::Kind::input || f.bindings[b.index].written));
      if (written && !writable) bad("a step writes what is read-only");
    }
    if (s.origin != UINT32_MAX && s.origin >= plan.origins.size()) bad("a step names an origin that does not exist");
  }
}

struct Sections {
  Header header;
  std::span<const std::byte> metadata, weights, after_header;  // the last is all that a signature covers
  std::optional<Signature> signature;
};

// Refuses files that this build does not read, before anything else in them is looked at.
void check_version(std::span<const std::byte> bytes, const Header& h) {
  if (h.magic == magic_before_1) {
    uint32_t number = 0;
    std::memcpy(&number, bytes.data() + sizeof h.magic, sizeof number);
    throw Error(Code::version, fmt::format("the plan has format {}, from before version 1.0 of the format, and is no longer read", number))
        .fix("compile the model again with this version and save it");
  }
  if (h.magic != file_magic) fail(Code::format, "this is not a plan: it does not start as one");
  if (h.major != format_major || h.minor > format_minor) {
    throw Error(Code::version, fmt::format("the plan has format {}.{}, this ingot reads formats {}.0 to {}.{}", h.major, h.minor, format_major, format_major, format_minor))
        .fix("update ingot, or compile the model again with this version");
  }
}

// Checks the header and splits the file into its parts, which cover every byte.
Sections sections(std::span<const std::byte> bytes) {
  if (bytes.size() < sizeof(Header)) fail(Code::format, "this is not a plan: {} bytes are too few", bytes.size());
  Header h;
  std::memcpy(&h, bytes.data(), sizeof h);
  check_version(bytes, h);
  if (h.header_hash != header_hash(h)) fail(Code::format, "the plan is damaged: its header does not match its checksum");
  auto section = [&](uint64_t offset, uint64_t size, const char* what) {
    if (offset > bytes.size() || size > bytes.size() - offset)
      fail(Code::format, "the plan is cut off: its {} would end at byte {}, the file has {}", what, offset + size, bytes.size());
    return bytes.subspan(offset, size);
  };
  const auto metadata = section(sizeof(Header), h.metadata_bytes, "metadata");
  const auto weights = section(h.weights_offset(), h.weights_bytes, "weights");
  const uint64_t metadata_end = sizeof(Header) + metadata.size(), weights_end = h.weights_offset() + weights.size();
  const auto last = section(weights_end, h.signature_bytes, "signature");
  if (const uint64_t end = weights_end + last.size(); end != bytes.size())
    fail(Code::format, "there is something after the end of the plan: it ends at byte {}, the file has {}", end, bytes.size());
  std::optional<Signature> signature;
  if (!last.empty()) {
    if (last.size() != sizeof(Signature)) fail(Code::format, "the plan's signature has {} bytes, not {}", last.size(), sizeof(Signature));
    std::memcpy(&signature.emplace(), last.data(), last.size());
  }
  auto between = bytes.subspan(metadata_end, h.weights_offset() - metadata_end);
  const bool zeros = std::all_of(between.begin(), between.end(), [](std::byte b) { return b == std::byte{0}; });
  const bool unused = std::all_of(std::begin(h.reserved), std::end(h.reserved), [](uint64_t x) { return x == 0; });
  if (!zeros || !unused) fail(Code::format, "the plan is damaged: there is something where nothing belongs");
  return {h, metadata, weights, bytes.subspan(sizeof h, weights_end - sizeof h), signature};
}

// Weights that share no bytes, in order: the content of the weights section.
std::vector<size_t> distinct(const Plan& plan) {
  std::set<std::pair<const std::byte*, uint64_t>> seen;
  std::vector<size_t> out;
  for (size_t i = 0; i < plan.weights.size(); ++i) {
    const Weight& w = plan.weights[i];
    if (w.source == Weight::Source::host || (w.bytes > 0 && !seen.insert({w.data, w.bytes}).second)) continue;
    out.push_back(i);
  }
  return out;
}

// Checks that the weights fill their section without gaps.
void verify_layout(const Plan& plan, std::span<const std::byte> section) {
  uint64_t end = 0;
  for (size_t i : distinct(plan)) {
    const Weight& w = plan.weights[i];
    if (w.bytes > 0 && w.data != section.data() + end) fail(Code::format, "the plan is damaged: weight \"{}\" is not where it belongs", w.name);
    end += (w.bytes + 63) / 64 * 64;
  }
  if (end != section.size()) fail(Code::format, "the plan is damaged: its weights end at byte {} of their section, which has {}", end, section.size());
}

bool has_device_code(const Plan& plan) {
  return std::any_of(plan.targets.begin(), plan.targets.end(), [](const ForTarget& t) { return !t.code.empty(); });
}

// With keys: of a file that is signed by one of them.
std::shared_ptr<Plan> parse(std::span<const std::byte> bytes, std::shared_ptr<const void> keep, Trust trust, const std::vector<PublicKey>* keys) {
  const Sections file = sections(bytes);
  if (keys != nullptr && !file.signature) throw Error(Code::format, "the plan is not signed").fix("sign it with `ingot sign`, or choose another level of trust");
  if (keys != nullptr) check_signature(file.header, file.after_header, *file.signature, *keys);
  // Copied first, so that the checked bytes are the ones that are read, even if a mapped file changes meanwhile.
  const std::vector<std::byte> metadata(file.metadata.begin(), file.metadata.end());
  if (hash128(metadata) != file.header.metadata_hash) fail(Code::format, "the plan is damaged: its metadata does not match its checksum");
  flatbuffers::Verifier verifier(reinterpret_cast<const uint8_t*>(metadata.data()), metadata.size(), 64, static_cast<flatbuffers::uoffset_t>(metadata.size() / 4));
  if (!fb::VerifyPlanBuffer(verifier)) fail(Code::format, "the plan is damaged: its metadata cannot be read");
  const fb::Plan* p = fb::GetPlan(metadata.data());
  auto plan = std::make_shared<Plan>();
  Reader reader(metadata.size());
  each(p->functions(), [&](const fb::Function& f) { plan->functions.push_back(reader.function(&f)); });
  each(p->targets(), [&](const fb::Target& t) { plan->targets.push_back(reader.target(t)); });
  each(p->weights(), [&](const fb::Weight& w) {
    plan->weights.push_back(reader.weight(w, file.weights));
    if (plan->weights.back().data != nullptr) plan->weights.back().keep = keep;
  });
  each(p->origins(), [&](const fb::Origin& o) {
    auto text = [&](const flatbuffers::String* s) { return reader.text(s, "an origin"); };
    plan->origins.push_back({text(o.file()), text(o.code()), text(o.module_()), text(o.target()), o.line()});
  });
  plan->signature = reader.text(p->signature(), "the signature");
  each(p->provenance(), [&](const fb::Pair& pair) { plan->provenance.emplace_back(reader.text(pair.key(), "the provenance"), reader.text(pair.value(), "the provenance")); });
  std::copy(file.header.metadata_hash.begin(), file.header.metadata_hash.end(), plan->hash.begin());
  std::copy(file.header.weights_hash.begin(), file.header.weights_hash.end(), plan->hash.begin() + sizeof(Hash128));
  plan->weights_hash = file.header.weights_hash;
  if (file.signature) plan->signer = text_of(file.signature->key);
  plan->outdated = file.header.programs < oldest_programs || file.header.programs > program_revision;
  verify_layout(*plan, file.weights);
  verify(*plan);
  if (has_device_code(*plan)) {
    const bool ours = trust == Trust::automatic && made_here(metadata);
    plan->code_from = ours ? CodeFrom::here : trust == Trust::code ? CodeFrom::trusted : CodeFrom::elsewhere;
  }
  plan->runs_external = trust == Trust::code;
  return plan;
}

std::shared_ptr<Plan> parse_named(const std::string& name, std::span<const std::byte> bytes, std::shared_ptr<const void> keep, Trust trust, bool all,
                                  const std::vector<PublicKey>* keys = nullptr) {
  try {
    std::shared_ptr<Plan> plan = parse(bytes, std::move(keep), trust, keys);
    if (all) verify_content(*plan);
    return plan;
  } catch (Error& e) {
    e.message = name + e.message;
    if (e.remedy.empty()) e.fix(repair);
    throw;
  }
}

}  // namespace

void verify(const Plan& plan) {
  if (plan.functions.empty()) fail(Code::format, "the plan has no function");
  if (plan.targets.empty()) fail(Code::format, "the plan is for no device");
  for (const Function& f : plan.functions) {
    verify_function(plan, f);
    if (!f.regions.empty()) verify_regions(plan, static_cast<size_t>(&f - plan.functions.data()));
    if (f.programs.size() != plan.targets.size()) fail(Code::format, "function \"{}\" of the plan has {} programs for {} targets", f.name, f.programs.size(), plan.targets.size());
    for (size_t t = 0; t < plan.targets.size(); ++t) verify_program(plan, plan.targets[t], f, f.programs[t]);
  }
  verify_calls(plan);
  for (const ForTarget& t : plan.targets) {
    const Function& prepare = t.prepare;
    if (!prepare.bindings.empty() || !prepare.symbols.empty() || !prepare.regions.empty()) fail(Code::format, "the plan's prepare function has bindings or symbols");
    verify_function(plan, prepare);
    if (prepare.programs.size() != 1) fail(Code::format, "the plan's prepare function has {} programs", prepare.programs.size());
    verify_program(plan, t, prepare, prepare.programs[0]);
    for (const Timing& x : t.timings) {
      bool good = is_timing_text(x.machine) && is_timing_text(x.problem) && is_timing_text(x.choice);
      if (good && &x != t.timings.data()) good = std::pair((&x)[-1].machine, (&x)[-1].problem) < std::pair(x.machine, x.problem);
      if (!good) fail(Code::format, "the plan is damaged: what was timed for {} is not in order", t.target.text());
    }
  }
}

std::shared_ptr<const Plan> read(std::span<const std::byte> bytes, std::shared_ptr<const void> keep, Trust trust) {
  return parse_named("", bytes, std::move(keep), trust, trust == Trust::data);
}

std::shared_ptr<const Plan> read_file(const std::string& path, Trust trust, MappedFile::Access access) {
  auto file = MappedFile::open(path, access);
  auto plan = parse_named(path + ": ", file->bytes(), file, trust, trust == Trust::data || access == MappedFile::Access::whole);
  plan->file = file;
  return plan;
}

std::shared_ptr<const Plan> read_signed(std::span<const std::byte> bytes, std::shared_ptr<const void> keep, std::span<const std::string> keys) {
  const std::vector<PublicKey> known = read_keys(keys);
  return parse_named("", bytes, std::move(keep), Trust::code, false, &known);  // the signature covers what checksums do
}

std::shared_ptr<const Plan> read_signed_file(const std::string& path, std::span<const std::string> keys) {
  const std::vector<PublicKey> known = read_keys(keys);
  auto file = MappedFile::open(path, MappedFile::Access::whole);  // a mapped file could change after it was checked
  auto plan = parse_named(path + ": ", file->bytes(), file, Trust::code, false, &known);
  plan->file = file;
  return plan;
}

void verify_content(const Plan& plan) {
  if (!plan.weights_hash) return;  // made in memory, not read from a file
  if (std::any_of(plan.weights.begin(), plan.weights.end(), [](const Weight& w) { return w.source == Weight::Source::host; })) return;  // nothing to check
  const std::vector<size_t> stored = distinct(plan);
  for (size_t i : stored) {
    const Weight& w = plan.weights[i];
    const std::byte* end = w.data + w.bytes;  // its padding to 64 bytes
    if (std::any_of(end, end + (64 - w.bytes % 64) % 64, [](std::byte b) { return b != std::byte{0}; }))
      throw Error(Code::format, fmt::format("the plan is damaged: the padding after weight \"{}\" is not zero", w.name)).fix(repair);
  }
  if (weights_hash(plan, stored) != *plan.weights_hash) throw Error(Code::format, "the plan is damaged: its weights do not match their checksum").fix(repair);
}

}  // namespace ingot::plan
