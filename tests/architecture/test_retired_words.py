"""Retired words stay retired: one word has one meaning, and it is the field's.

Rename something, and write the old word here, with what to say instead.
"""

import re
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[2] / "src" / "headwise"

RETIRED = {
    "": {
        "EnterStack": "StackInput",
        "attention_seen": "record_attention_weights",
        "to_real_tokens|to_the_past": "make_padding_mask, make_causal_mask",
        "weights_by_layer": "parameters_by_layer",
        "force_decode|forced_decoding": "score_sequences, sequence_scoring",
        r"cli[./](common|checks|recipe_args)": "the module's new name",
        r"decoding[./](checks|prefix)": "argument_checks, forced_prefix",
        r"doctor[./](folder|files|model|machine|packages|exports)": "folder_checks ...",
        r"engines[./](settings|threads)": "engine_names, default_threads",
        "cuda_graph_capture": "static_buffers",
        "StreamLines|stream_lines": "NonblockingLines, nonblocking_lines",
        "Watchers?|watchers?": "callback",
        "Keeper|RunKeeper|keeper": "checkpoint writer",
        "Learner|learner": "MicroBatchRunner",
        "Partners|_Partner": "WorkerPool, _Worker",
        "RunningMean": "EMA",
        "Twin": "EvalModel",
        "Underway": "PendingStep",
        "Rehearsal": "MemoryEstimator",
        "Forecast": "MemoryEstimate",
        "Outlook|look_ahead": "DryRunReport, dry_run_report",
        "Gauge|ProcessGauge|GpuGauge|gauge_of": "MemoryUsage, ProcessMemory, GpuMemory",
        "seed_chance": "seed_rng",
        "idle_batches": "make_dummy_batches",
        "read_ahead": "prefetch",
        "box_by_box": "uncompiled",
        "passed_over|first_not_finite": "non_finite_message, first_non_finite",
        "sharded_like": "shard_like",
        "stopping_at_once|abandons": "stop_signals_raise, force_exit",
        "of_another_kind|peers_alive": "hardware_changed_warning, lost_rank_explained",
        "is_settled|is_beaten_by": "is_in_checkpoint, is_improved_by",
        "ERRORS_COUNT_DOWN|less_is_better": "LOWER_IS_BETTER, lower_is_better",
        r"training[./](loop|learner|feed|keeper|watch|twin|underway|partners|ranks|gauge"
        r"|memory|outlook|numerics|gradients|clock)": "the module's new name",
    },
    "backends": {
        "laid_out|lay_out": "make_decoder; pack",
        "SteppingDecoder|SteppingState": "TorchDecoder, TorchState",
        "CompiledDecoder|CompiledState|CompiledWeights": "NativeDecoder, NativeWeights",
        "FixedDecoder|FixedState|fixed_room": "CudaGraphDecoder, StaticBuffers",
        "RefillingDecoder|RefilledRow": "UncachedDecoder, UncachedState",
        "WritingDecoder": "DecoderBackend",
        "Rooms?|rooms?|Lent|lent": "static buffers, scratch, capacity, lease",
        "compiled_loss|learns_compiled|why_not_compiled": "NativeTraining, why_not",
        "takes_kernels|why_not_taken": "prefers_native, why_not_preferred",
        "Pupil|pupil|Lesson|lesson|Manner": "TrainModel, TrainBatch, MatmulOptions",
        "still_of|can_be_compiled|what_is_special|decode_real": "the new name",
        "stems|records": "ancestors, KV cache",
        "silenced?|thinned|draw_kept": "dropout mask",
        "Packing|PackedMask|packed_index": "Unpadding, UnpaddedMask, unpadded_index",
        "TorchCompileLoss|decode_rows": "TorchCompileTraining, decode_packed",
        "native_loss|trains_natively": "NativeTraining, training_backend",
        "heads_apart|heads_joined|within_sentences": "split_heads, merge_heads",
        "walks? through memory|way back|forth and back": "memory-bound, backward pass",
    },
    "backends/native/csrc": {
        "pupil|lesson|manner|parts": "train_model, train_batch, matmul_opts, terms",
        "tally|tallies|choose|chosen|refused": "topk_state, topk_update, forbidden",
        "turned?|bend|bent|spare": "transposed, activation, scratch",
        "look|look_back|looking|remember": "attention, KV cache",
        "silenced?|forth": "dropout, forward",
    },
    "model": {
        "Places": "PositionIds",
        "Seen|noting": "AttentionRecord",
        r"\w*may_attend|MayAttend": "mask, AttentionMask",
        r"remember\w*": "project_keys_values",
        r"\w+_box|box_by_box": "make_attention and so on, layer, sublayer",
        "with_cache|extended|picked|rooms?": "with_kv_cache, append, index_select",
        "ask|asks|asked": "query positions, key positions",
        "bend|silenced?": "activation, dropout",
    },
    "training": {
        "partners?": "data-parallel worker",
        "twins?": "evaluation model, or reference",
        "underway": "pending",
        "gauges?": "memory usage",
        "outlook": "dry run",
        r"rehears\w*": "dry run, or memory estimate",
        r"hurr(y|ies)|in a hurry": "asynchronous metrics",
        r"heed(s|ed)?|rescue": "check, handle; emergency save",
        "forth and back|way back": "forward and backward pass",
        "look(s|ed|ing)?": "validate",
        "running mean": "EMA",
        "Manner|BackwardOptions": "WorkerOptions",
        "Amount": "Scalar",
        "Feed": "BatchStream",
        "Clock": "TimeLimit",
        "Alarm": "Watchdog",
    },
    "decoding": {
        "NextToken|next_token": "IncrementalDecoder, incremental_decoder",
        "Choosing|step_to_likely|Likely|likely_next": "TopKDecoder, step_topk, TopK",
        "WritingAhead|write_ahead|most_likely_next": "GreedyDecoder, decode_greedily",
        "Attending|step_attending": "AttentionDecoder, step_with_attention",
        "best_tokens?|best_tokens_by_rules": "top1_token, topk_tokens, with_rules",
        "can_choose|chosen": "has_native_topk, native_topk",
        "LEAVING": "COMPACT_AT",
        "Asked": "SearchRequest",
        "Drawing|chances?": "Sampler, sample_rng",
        "Written|ruled": "RuleContext, apply_rules",
        "Candidates|alive_of|origins": "Continuations, parents",
        "best_to_come|hope": "best_possible_score",
        "dead_end": "no_token_allowed",
        "going_on|still written": "unfinished",
        "looked_at|looks?|looking": "attends; num_continuations",
        "traces?|tracing": "token_scores, token_log_p",
        "spells|borders?": "can_spell, word boundary",
        "loop_in|without_loops|once_a_line|each_kind_once": "find_loop, merge_warnings",
        "beginnings?|begun": "prefix",
    },
    "tasks": {
        "Searcher": "Generator",
        "TextTask": "TextCodec",
        "AttendingModel|step_attending": "CoverageDecoder, step_with_attention",
        r"[Aa]bandon\w*": "Cancelled, check_stop",
        "all_done|side_by_side|shared_out": "run_in_threads, tokens_per_batch",
        "LOOK_UP": "STOP_POLL_SECONDS",
        "SEARCH_TOKENS|SCORE_TOKENS": "BATCH_TOKENS",
        "NEVER_WRITTEN": "FORBIDDEN_TOKENS",
        "written_pieces|prefix_of|with_token": "piece_texts, encode_prefix",
        "weights_of_head|informed": "select_head, mutual_information",
        "beginnings?|begun": "prefix",
    },
    "inference": {
        "SearchAside|SearchWhenAsked|WorksAside": "BackgroundSearch, AsyncEngine",
        "GivenUp|give_up|given up": "Cancelled, cancel",
        "begun|aside": "submitted; in the background",
        r"reasons_against_\w+|Reason": "unsupported_search, Unsupported",
        "BLOCKS_AHEAD|LOOK_EVERY": "PREFETCH_BLOCKS, POLL_EVERY",
        r"\w+_AT_ONCE": "BLOCK_LINES, BLOCK_CHARACTERS, BLOCK_PIECES",
        "Asked|Made": "LineRequest, PieceResult",
        "QUEUED": "QUEUE_DEPTH",
        "wide_instructions": "avx512_enabled",
        "stamp": "weight_versions",
    },
    "cli": {
        "[Vv]erbs?|VERBS": "command, Command, COMMANDS",
        "rehearsal_of|fitted|is_to_be_fitted": "new_memory_estimator, fit_batch_size",
        "every_error_in_words|reported": "errors_to_exit_codes, exit_on_errors",
        "say_unknown|say_without_effect": "say_missing_card_fields",
        "search_table|chosen_device|to_folder": "parse_search, resolve_device",
        "gone on with|goes on|went on": "resumed, continues",
    },
    "doctor": {
        "Findings?|findings?": "Check, check",
        r"look_at_\w+": "check_machine, check_files and so on",
        "precisions|taken": "golden_translations, backends_used",
    },
    "reports": {
        "Look|looks?|looked": "ValidationRecord, validation",
        "Stretch(es)?|stretch(es)?": "UpdateBucket, bucket",
        "Picture|Shown|Found": "AttentionMap, Sample, ScoreRecord",
        "spread|told|best_in_words": "evenly_spaced, describe_best",
    },
    "interop": {
        "KeptExport|kept_export": "CachedExport, cached_export",
        "left_behind": "ignored_settings",
        "apart_from_copies|in_int8": "alias_duplicates, quantize_int8",
        "TAKES_CHANNELS|GIVES_CHANNELS": "INPUT_IS_D_MODEL, OUTPUT_IS_D_MODEL",
    },
    "run_folder": {
        "claim(ed)?|claim_folder|check_claimable": "lock_run_folder",
        "card_head": "card_metadata",
        "rhythm|forget_old": "interval, delete_old",
        "Edited|edited|searches_otherwise": "EditResult, edit_card, search_changed",
        "sealed": "with a new manifest",
        "running mean": "EMA",
    },
    "data": {
        "GrowingArray|MappedArray": "npy_files, NpyWriter, MappedNpyFile",
        "sameness|SameTexts": "identical_sides, IdenticalSides",
        "row_shapes|RowShape|RowBatch|in_rows": "sequence_packing, PackedBatch, packed",
        "packed_shapes|pack_batches": "sequence_packing, split_into_packed_batches",
        "target_in|target_out": "decoder_input, target",
        "dealt|num_places|forget": "deal, padded_tokens, release_pages",
        "stretch(es)?|fates?": "range, outcome",
        "learn(s|ed|ing)?|learnt": "train",
    },
    "text": {
        "arriving|Arriving": "nonblocking_lines, NonblockingLines",
        "LearningError|learn(s|ed|ing)? of": "SentencePieceError, train",
        "opened_text|line_of|encodable": "open_text, decode_line",
    },
    "storage": {
        "sweep|bring_back|make_way": "remove_leftovers, restore_replaced",
        "draft_of|swapped|seal": "temporary_path, swap_names, manifest_sha256",
        "damages": "damaged_files",
    },
}
"""Folder of the package ("" for all of it) -> pattern of whole words -> what to say."""


def retired_words(folder: Path, words: dict[str, str]) -> list[str]:
    """Name file, line and word of each retired word below ``folder``."""
    patterns = {re.compile(rf"\b(?:{old})\b"): new for old, new in words.items()}
    return [
        f"{file.relative_to(folder)}:{number}: {found[0]!r} was retired; say: {new}"
        for file in sorted([*folder.rglob("*.py"), *folder.rglob("*.[ch]")])
        for number, line in enumerate(file.read_text(encoding="utf-8").split("\n"), 1)
        for pattern, new in patterns.items()
        if (found := pattern.search(line))
    ]


@pytest.mark.parametrize("folder", RETIRED)
def test_no_retired_word_is_used(folder):
    assert retired_words(PACKAGE / folder, RETIRED[folder]) == []


def test_a_retired_word_is_found_with_its_place_and_as_a_whole_word_only(tmp_path):
    code = "twinkle = 1\nself.twin = 2  # Twins\n"
    (tmp_path / "averaging.py").write_text(code)

    assert retired_words(tmp_path, {"twins?": "EvalModel"}) == [
        "averaging.py:2: 'twin' was retired; say: EvalModel"
    ]


def test_nobody_says_what_is_retired_in_the_place_of_another():
    words = [old for table in RETIRED.values() for old in table]
    for table in RETIRED.values():
        for new in table.values():
            for old in words:
                assert not re.search(rf"\b(?:{old})\b", new), f"{new} has {old}"
