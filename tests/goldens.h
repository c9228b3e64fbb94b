// Numbers of the lecture as PyTorch 1.13.1 makes them on a CPU from seed 0, for a text with the
// vocabulary and the first 48 characters of tinyshakespeare.
#pragma once

#include <cstdint>
#include <limits>
#include <string_view>

namespace headproof::goldens {

/// A tensor that is drawn, or made of drawn ones by copying and one addition: FNV-1a of its bytes.
struct Drawn {
  std::string_view name;
  std::uint64_t digest;
};

/// A tensor that is computed: elements 0, size / 3, size / 2 and the last, and how far another back
/// end may be from them.
struct Computed {
  std::string_view name;
  double tolerance;
  double probes[4];
};

inline constexpr double infinity = std::numeric_limits<double>::infinity();

inline constexpr Drawn drawn[] = {
    {"head_key", 0x1d9d6426f95c4263},
    {"head_query", 0x4a2fb5d01a1ea8ff},
    {"head_value", 0x1d2d09650a0c6d57},
    {"x", 0x4e0c3f4ab31707e3},
    {"x2_row5", 0x8e48a0117c7e6f88},
    {"x2", 0xafbd8b86fd77a0ee},
    {"lemma_q_16", 0xc5e6a0fe5e8e9d73},
    {"lemma_k_16", 0xaf6958a760061f28},
    {"lemma_q_64", 0x5175d4cd457e3d5f},
    {"lemma_k_64", 0xac8d03abba3b6632},
    {"lemma_q_256", 0x82e0dfcc857ada13},
    {"lemma_k_256", 0x9351cfbdcdeb7aab},
    {"s", 0x8de4b6539e475380},
    {"hn_key", 0x3284fa1939b1a77d},
    {"hn_query", 0xd8ca822f9004614f},
    {"hn_value", 0x132e25fd58ca1349},
    {"perm", 0x4dc7f780a15d8585},
    {"xp_pos_emb", 0x6c4f5fd718f7532},
    {"xp", 0xf775df6fde9c5a15},
    {"tok", 0x5c5d9262ed81a1fd},
    {"pos", 0x9591058df589a46f},
    {"idx", 0x75ad238f6be8f56a},
    {"token_ids_48", 0xc72a1c43badba0c5},
    {"tok_emb", 0xfaeb1ba722f9d9f2},
    {"pos_emb", 0x5404c26bef8e6b1f},
    {"xin", 0x35da61d46c6f41b2},
    {"h_seed0_key", 0x1d9d6426f95c4263},
    {"h_seed0_query", 0x4a2fb5d01a1ea8ff},
    {"h_seed0_value", 0x1d2d09650a0c6d57},
    {"h_seed1_key", 0xa17b5f44b8a75748},
    {"h_seed1_query", 0x41bc48392955f3e2},
    {"h_seed1_value", 0xd07e67b409cd96c2},
    {"h_seed2_key", 0x46ed2fa89c46a2e3},
    {"h_seed2_query", 0x563f7b9940b6c832},
    {"h_seed2_value", 0x92748083f3da72c7},
    {"h_seed3_key", 0xcd9a567e94804ce6},
    {"h_seed3_query", 0x589ec19639a79f68},
    {"h_seed3_value", 0xd0665aca01b461c4},
    {"h_seed4_key", 0x584326f9a5ebd8d},
    {"h_seed4_query", 0x67b3735691b06b59},
    {"h_seed4_value", 0x7bf5357d2935094d},
    {"big_key", 0x7df410109e696313},
    {"big_query", 0x40d439339c2864e0},
    {"big_value", 0xdee82a77dbc9e00a},
    {"xb", 0x292e231367193689},
};

inline constexpr Computed computed[] = {
    {"q", 2e-06, {0.4494015, 0.17539932, 0.7035164, -0.09023596}},
    {"k", 2e-06, {-0.6707709, 1.5127677, 0.553368, 1.0166788}},
    {"v", 2e-06, {-0.7381887, 0.23891796, -0.858816, 0.11970624}},
    {"scores_masked", 2e-06, {-0.06661904, -infinity, 0.24135455, -0.036046524}},
    {"A", 5e-07, {1.0, 0.0, 1.0, 0.14351161}},
    {"out", 1e-06, {-0.7381887, 0.24966621, -0.858816, -0.04863853}},
    {"lo", 2e-06, {-0.7381887, -0.3727786, -0.858816, -0.7243428}},
    {"hi", 2e-06, {0.29388097, 0.8113796, 1.1488557, 0.42890733}},
    {"A2", 5e-07, {1.0, 0.0, 1.0, 0.1309669}},
    {"out2", 1e-06, {-0.7381887, 0.24966621, -0.858816, -0.042881325}},
    {"xg_grad", 5e-07, {-0.06935212, 0.0, 0.0, 0.0}},
    {"lemma_raw_16", 5e-06, {-4.921253, -2.4611807, -1.3702008, 2.4665089}},
    {"lemma_scaled_16", 5e-06, {-1.2303133, -0.6152952, -0.3425502, 0.6166272}},
    {"lemma_softmax_raw_16", 5e-07, {1.2212307e-06, 0.005272455, 3.185863e-06, 0.024314528}},
    {"lemma_softmax_scaled_16", 5e-07, {0.013016223, 0.08346733, 0.025399342, 0.13687283}},
    {"lemma_raw_64", 2e-05, {-0.39519268, 3.2844586, -6.9800444, -9.17929}},
    {"lemma_scaled_64", 2e-05, {-0.049399085, 0.41055733, -0.87250555, -1.1474112}},
    {"lemma_softmax_raw_64", 5e-07, {0.0007274897, 0.0016272556, 3.8862595e-08, 2.0769748e-07}},
    {"lemma_softmax_scaled_64", 5e-07, {0.09774986, 0.12533225, 0.04931247, 0.043616354}},
    {"lemma_raw_256", 5e-05, {-8.71253, -2.4730585, -7.0052896, 0.41508293}},
    {"lemma_scaled_256", 5e-05, {-0.54453313, -0.15456615, -0.4378306, 0.025942683}},
    {"lemma_softmax_raw_256", 5e-07, {8.3184015e-12, 4.4342433e-15, 6.151431e-18, 1.34358e-15}},
    {"lemma_softmax_scaled_256", 5e-07, {0.055714898, 0.06346199, 0.04176566, 0.070053555}},
    {"right", 5e-07, {1.0, 0.0, 0.13663948, 0.04333391}},
    {"wrong", 5e-07, {0.01587281, 0.0, 0.075684465, 0.04333391}},
    {"hn_A_xperm", 5e-07, {0.08018477, 0.11488582, 0.10317708, 0.18808156}},
    {"hn_A_x", 5e-07, {0.11526461, 0.12653369, 0.06877841, 0.18808156}},
    {"hn_out_xperm", 1e-06, {-0.07731254, -0.20483014, -0.28051797, 0.26257294}},
    {"hn_out_x", 1e-06, {-0.052480206, -0.25795192, -0.2856612, 0.26257294}},
    {"a1", 1e-06, {-0.17935039, 0.42833245, -0.046046097, 0.64500606}},
    {"b1", 1e-06, {-0.1793504, 0.42833245, -0.0460461, 0.64500606}},
    {"a2", 1e-06, {0.2369623, 0.7490595, 0.3410402, 0.8702892}},
    {"b2", 1e-06, {0.15523838, 0.024112627, 0.35479835, 0.38370225}},
    {"h_seed0_A", 5e-07, {1.0, 0.061878335, 0.012280575, 0.031312674}},
    {"h_seed1_A", 5e-07, {1.0, 0.046157405, 0.008186215, 0.006965673}},
    {"h_seed2_A", 5e-07, {1.0, 0.027913433, 0.012796524, 0.041326743}},
    {"h_seed3_A", 5e-07, {1.0, 0.019897366, 0.020450901, 0.090695135}},
    {"h_seed4_A", 5e-07, {1.0, 0.11325258, 0.02517489, 0.011078353}},
    {"kernel_A_s0.5", 5e-07, {1.0, 0.0, 0.0, 0.88053685}},
    {"kernel_A_s2", 5e-07, {1.0, 4.2120822e-15, 1.7894417e-32, 0.33259848}},
    {"kernel_A_s8", 5e-07, {1.0, 0.013353058, 0.0010575311, 0.094998226}},
    {"kernel_A_sinf", 5e-07, {1.0, 0.05882353, 0.04, 0.020833334}},
    {"big_A", 5e-07, {0.021614077, 0.031717144, 0.021124499, 0.022984771}},
    {"S", 3e-06, {-1.1490422, 0.10008071, -0.9746472, -0.52464926}},
    {"S_singular_values", 3e-06, {15.838707, 1.0162773e-06, 5.339766e-07, 6.1883014e-09}},
    {"S_singular_values_f64",
     3e-06,
     {15.838705752082927, 4.023580848165047e-07, 2.440868952451829e-07, 5.010838037357068e-09}},
};

}  // namespace headproof::goldens
