#include <cstdio>

#include "command.h"

namespace ingot::cli {

namespace {

struct SignArguments {
  std::string plan, key, output;
};

void sign(const SignArguments& a) {
  const std::string& output = a.output.empty() ? a.plan : a.output;
  check(ingot_plan_sign(a.plan.c_str(), a.key.c_str(), output.c_str()));
  std::printf("%s: signed\n", output.c_str());
}

void keygen(const std::string& name) {
  char* key = nullptr;
  check(ingot_keys_make(name.c_str(), &key));
  std::printf("%s\n", take(key).c_str());
}

}  // namespace

void add_sign(CLI::App& app) {
  auto a = std::make_shared<SignArguments>();
  CLI::App* verb = app.add_subcommand("sign", "Sign a plan, so that others can tell that it is yours and was not changed.");
  verb->add_option("plan", a->plan, "the plan")->required();
  verb->add_option("--key", a->key, "the file with your secret key, from ingot keygen")->required();
  verb->add_option("-o,--output", a->output, "the signed plan; none: in place of the plan");
  verb->callback([a] { sign(*a); });
}

void add_keygen(CLI::App& app) {
  auto name = std::make_shared<std::string>();
  CLI::App* verb = app.add_subcommand("keygen", "Make a key to sign plans with: NAME.key is secret, NAME.pub is for those who load them.");
  verb->add_option("name", *name, "where the two files are written")->required();
  verb->callback([name] { keygen(*name); });
}

}  // namespace ingot::cli
