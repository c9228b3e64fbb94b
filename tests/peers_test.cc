// Attention of others comes out as docs/peers.md says: what the files known_* beside peers.py list
// is violated, and nothing else. Runs where HEADPROOF_PYTHON names an interpreter that has them.

#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "command.h"

namespace headproof {
namespace {

struct Peer {
  const char *name, *module, *arguments;
};

class Peers : public CommandTest, public testing::WithParamInterface<Peer> {};

TEST_P(Peers, BreaksWhatIsKnownAndNothingElse) {
  const char* named = std::getenv("HEADPROOF_PYTHON");
  const std::string python = named == nullptr ? "python3" : named;
  const Peer& peer = GetParam();
  if (shell(python + " -c 'import " + peer.module + "'").exit_code != 0) {
    GTEST_SKIP() << "HEADPROOF_PYTHON names no interpreter that has " << peer.module;
  }
  const std::string folder = HEADPROOF_SOURCE_DIR "/examples/subjects";
  const Ended ended =
      shell("cd '" + folder + "' && \"$HEADPROOF\" check --python " + python + " --seconds 60 " +
            peer.arguments + ":peers:" + peer.name + " --strict --expected known_" + peer.name);
  EXPECT_EQ(ended.exit_code, 0) << ended.out << ended.err;
}

INSTANTIATE_TEST_SUITE_P(
    All, Peers,
    testing::Values(Peer{"numpy_attention", "numpy", "python"},
                    Peer{"torch_math", "torch", "python"}, Peer{"torch_flash", "torch", "python"},
                    Peer{"torch_head", "torch", "head:python"},
                    Peer{"onnxruntime_attention", "onnxruntime, onnx", "python"}),
    [](const auto& tested) { return tested.param.name; });

}  // namespace
}  // namespace headproof
