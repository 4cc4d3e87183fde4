#include "capture/capture.h"

#include <unordered_map>

#include "base/mapped_file.h"
#include "capture/importer.h"
#include "capture/zip.h"

namespace ingot::capture {

namespace {

// simdjson allocates when it chooses its instruction set and dies when it cannot: better while the library is loaded than at its first use.
[[maybe_unused]] const std::string chosen = simdjson::get_active_implementation()->name();

Json parse(simdjson::dom::parser& parser, std::string_view text, std::string_view name) {
  simdjson::dom::element root;
  if (auto error = parser.parse(text.data(), text.size(), true).get(root)) {
    if (error == simdjson::MEMALLOC) throw std::bad_alloc();
    fail(Code::format, "{} is not readable JSON: {}", name, simdjson::error_message(error));
  }
  return {root, name};
}

// The weights and constants of an archive: name -> payload and its recorded layout.
class Payloads {
 public:
  explicit Payloads(const Zip& zip) : zip_(zip), meta_reader_([](ir::Weight&, bool, const TensorMeta&) {}, Importer::From::file) {
    for (std::string_view folder : {"data/weights/", "data/constants/"}) {
      for (const std::string& name : zip.names(folder)) {
        if (name.ends_with("_config.json")) read(name, folder);
      }
    }
  }

  void fill(ir::Weight& weight, const TensorMeta& in_graph) {
    auto found = payloads_.find(weight.name);
    if (found == payloads_.end()) fail(Code::format, "the archive holds no data for weight \"{}\"", weight.name);
    const Payload& p = found->second;
    if (p.pickled) {
      throw Error(Code::unsupported, fmt::format("weight \"{}\" is a tensor subclass, which torch saved as a Python pickle; pickles are not read", weight.name), {},
                  "Turn it into a plain tensor before export (for quantised weights: dequantize(), or torchao's unwrap_tensor_subclass).");
    }
    if (p.meta.type.dtype != in_graph.type.dtype || !(p.meta.type.dims == in_graph.type.dims)) {
      fail(Code::format, "weight \"{}\" has another dtype or shape in the archive's data than in its graph", weight.name);
    }
    find_bytes(weight, p.meta, zip_.bytes(p.entry), zip_.file());
  }

 private:
  struct Payload {
    std::string entry;
    bool pickled = false;
    TensorMeta meta;
  };

  void read(const std::string& config, std::string_view folder) {
    simdjson::dom::parser parser;
    Json root = parse(parser, zip_.text(config), config);
    for (auto field : root.at("config").object()) {
      Json entry(field.value, field.key);
      Payload p;
      p.entry = std::string(folder) + std::string(entry.at("path_name").string());
      p.pickled = entry.at("use_pickle").boolean();
      if (auto m = entry.find("tensor_meta"); m && !p.pickled) {
        try {
          p.meta = meta_reader_.meta(*m);
        } catch (const Error& e) {
          if (e.code != Code::unsupported) throw;  // of a type that engines do not have: nothing here reads it
        }
      }
      payloads_.emplace(std::string(field.key), std::move(p));
    }
  }

  const Zip& zip_;
  Importer meta_reader_;
  std::unordered_map<std::string, Payload> payloads_;
};

// Weights that are the same bytes under two names: the later one is tied to the earlier.
class Ties {
 public:
  void look(ir::Weight& w, const ir::Type& type) {
    if (w.bytes == 0) return;
    for (const Seen& s : seen_) {
      if (s.data == w.data && s.type == type && s.order == w.order) {
        w.tied_to = s.name;
        return;
      }
    }
    seen_.push_back({w.data, type, w.order, w.name});
  }

 private:
  struct Seen {
    const std::byte* data;
    ir::Type type;
    std::vector<int64_t> order;
    std::string name;
  };
  std::vector<Seen> seen_;
};

}  // namespace

Model import_archive(const std::string& path) {
  Zip zip(MappedFile::open(path), path);
  if (zip.has("byteorder") && zip.text("byteorder") != "little") fail(Code::unsupported, "{} was saved on a big-endian machine", path);
  std::string model;
  for (const std::string& name : zip.names("models/")) {
    if (!name.ends_with(".json")) continue;
    if (model.empty() || name == "models/model.json") model = name;
  }
  if (model.empty()) {
    bool other = zip.has("data.pkl") || zip.has("serialized_exported_program.json") || zip.has("version");
    throw Error(other ? Code::unsupported : Code::format,
                fmt::format("{} holds no exported graph{}", path,
                            zip.has("data.pkl") ? ": it is a checkpoint made by torch.save"
                            : other             ? ": its format is older than torch 2.10"
                                                : ""),
                {}, "Make it with torch.export.save(torch.export.export(module, inputs), path), torch 2.10 or newer.");
  }
  simdjson::dom::parser parser;
  Json root = parse(parser, zip.text(model), model);
  Payloads payloads(zip);
  Ties ties;
  Importer importer(
      [&](ir::Weight& w, bool, const TensorMeta& m) {
        payloads.fill(w, m);
        ties.look(w, m.type);
      },
      Importer::From::file);
  return importer.run(root);
}

Model import_json(std::string_view json, const std::vector<HostWeight>& weights) {
  std::unordered_map<std::string_view, const HostWeight*> table;
  for (const HostWeight& w : weights) table.emplace(w.name, &w);
  simdjson::dom::parser parser;
  Json root = parse(parser, json, "the model's graph");
  Ties ties;
  Importer importer(
      [&](ir::Weight& w, bool, const TensorMeta& m) {
        auto found = table.find(w.name);
        if (found == table.end()) fail(Code::invalid_input, "no data was given for weight \"{}\"", w.name);
    // The pointer is that of the tensor's first element, so the recorded offset does not count.
        TensorMeta at_first = m;
        at_first.offset = 0;
        find_bytes(w, at_first, {found->second->data, found->second->bytes}, nullptr);
        ties.look(w, m.type);
      },
      Importer::From::process);
  return importer.run(root);
}

}  // namespace ingot::capture
