// The command line; each verb has its file.
#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <new>
#include <stdexcept>

#include "base/text.h"
#include "command.h"

namespace {

using namespace ingot::cli;

// Throws Failure if the first word is not a verb.
void check_verb(const CLI::App& app, std::string_view word) {
  std::vector<std::string> names;
  for (const CLI::App* verb : app.get_subcommands({})) names.push_back(verb->get_name());
  const std::vector<std::string_view> known(names.begin(), names.end());
  if (word.starts_with('-') || std::find(known.begin(), known.end(), word) != known.end()) return;
  const std::string_view near = ingot::nearest(word, known);
  const std::string remedy = near.empty() ? "ingot --help lists them" : "did you mean \"" + std::string(near) + "\"?";
  throw Failure{usage, "there is no command \"" + std::string(word) + "\"; " + remedy};
}

int run(int argc, char** argv) {
  CLI::App app{"ingot compiles PyTorch models into plans and runs them."};
  app.name("ingot");
  app.set_version_flag("--version", "ingot 0.1.0");
  app.require_subcommand(0, 1);
  app.failure_message([](const CLI::App* of, const CLI::Error& e) { return "ingot: " + CLI::FailureMessage::simple(of, e); });
  add_compile(app);
  add_run(app);
  add_bench(app);
  add_refit(app);
  add_inspect(app);
  add_verify(app);
  add_ops(app);
  add_doctor(app);
  add_cache(app);
  add_sign(app);
  add_keygen(app);
  try {
    if (argc > 1) check_verb(app, argv[1]);
    app.parse(argc, argv);
    if (app.get_subcommands().empty()) throw Failure{usage, "a command is needed; ingot --help lists them"};
  } catch (const CLI::ParseError& e) {
    return app.exit(e) == 0 ? 0 : usage;  // 0: --help or --version
  } catch (const Failure& f) {
    std::fprintf(stderr, "ingot: %s\n", f.text.c_str());
    return f.code;
  } catch (const std::length_error&) {  // a tensor larger than the address space
    std::fprintf(stderr, "ingot: out of memory for a tensor of these sizes\n");
    return 10 + INGOT_OUT_OF_MEMORY;
  } catch (const std::bad_alloc&) {
    std::fprintf(stderr, "ingot: out of memory for a tensor of these sizes\n");
    return 10 + INGOT_OUT_OF_MEMORY;
  } catch (const std::exception& e) {
    std::fprintf(stderr, "ingot: %s\n", e.what());
    return 11;
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  const int code = run(argc, argv);
  if (code == 0 && (std::fflush(stdout) != 0 || std::ferror(stdout) != 0)) {
    if (errno == EPIPE) return 128 + SIGPIPE;  // the reader has what it wanted: as if the signal had come
    std::fprintf(stderr, "ingot: cannot write what is printed: %s\n", std::strerror(errno));
    return 10 + INGOT_IO;
  }
  return code;
}
