// The fields of `strategy` and `training`: names and bounds, for FieldReader and FieldWriter.
#pragma once

#include <type_traits>

#include "api/v1/json_fields.h"

namespace lockstep::api {

inline constexpr int kMaxReplicas = 10'000;              // per role
inline constexpr std::int64_t kMaxSeconds = 31'536'000;  // a year
// The limit of batch/v1 Job for such durations, 68 years: a date plus this is still a valid date.
inline constexpr std::int64_t kMaxInt32 = 2'147'483'647;

void Fields(auto& visit, Like<ParameterServerSpec> auto& server) {
  visit.Field("mode", server.mode);
  visit.Field("maxStaleness", server.max_staleness, AtLeast(0));
  visit.Field("backupWorkers", server.backup_workers, IntegerRange{0, kMaxReplicas});
  visit.Field("placement", server.placement);
}

void Fields(auto& visit, Like<CentralStorageSpec> auto& storage) {
  visit.Field("controllerDevice", storage.controller_device);
}

void Fields(auto& visit, Like<StrategySpec> auto& strategy) {
  visit.Field("type", strategy.type);
  visit.Field("processesPerPod", strategy.processes_per_pod, IntegerRange{1, 256});
  visit.Field("stages", strategy.stages, IntegerRange{1, 64});
  visit.Field("sharding", strategy.sharding);
  visit.Field("communication", strategy.communication);
  visit.Field("parameterServer", strategy.parameter_server);
  visit.Field("centralStorage", strategy.central_storage);
}

void Fields(auto& visit, Like<ModelSpec> auto& model) {
  visit.Field("name", model.name);
  visit.Field("layers", model.layers, ListOfObjects());
  visit.Field("zeroGamma", model.zero_gamma);
}

void Fields(auto& visit, Like<SyntheticSpec> auto& synthetic) {
  visit.Field("trainExamples", synthetic.train_examples, IntegerRange{1, 1'000'000'000});
  visit.Field("testExamples", synthetic.test_examples, IntegerRange{1, 1'000'000'000});
  visit.Field("shape", synthetic.shape, IntegerRange{1, 65'536});
  visit.Field("classes", synthetic.classes, IntegerRange{2, 1'000'000});
}

void Fields(auto& visit, Like<NpySpec> auto& npy) {
  visit.Field("channelsLast", npy.channels_last);
}

void Fields(auto& visit, Like<CsvSpec> auto& csv) {
  visit.Field("labelColumn", csv.label_column);
}

void Fields(auto& visit, Like<TfRecordSpec> auto& tfrecord) {
  visit.Field("trainFiles", tfrecord.train_files);
  visit.Field("testFiles", tfrecord.test_files);
  visit.Field("feature", tfrecord.feature);
  visit.Field("label", tfrecord.label);
  visit.Field("shape", tfrecord.shape, IntegerRange{1, 65'536});
  visit.Field("classes", tfrecord.classes, IntegerRange{0, 1'000'000});
}

void Fields(auto& visit, Like<RandomCropSpec> auto& crop) {
  visit.Field("padding", crop.padding, IntegerRange{1, 65'535});
}

void Fields(auto& visit, Like<CutoutSpec> auto& cutout) {
  visit.Field("size", cutout.size, IntegerRange{1, 65'535});
}

void Fields(auto& visit, Like<MixUpSpec> auto& mix_up) {
  visit.Field("alpha", mix_up.alpha, RealRange{0, 100, true, false});
}

void Fields(auto& visit, Like<AugmentSpec> auto& augment) {
  visit.Field("randomFlip", augment.random_flip);
  visit.Field("randomCrop", augment.random_crop);
  visit.Field("cutout", augment.cutout);
  visit.Field("mixUp", augment.mix_up);
}

void Fields(auto& visit, Like<NormalizeSpec> auto& normalize) {
  visit.Field("mean", normalize.mean);
  visit.Field("std", normalize.std, Above(0));
}

void Fields(auto& visit, Like<DatasetSpec> auto& dataset) {
  visit.Field("format", dataset.format);
  visit.Field("path", dataset.path);
  visit.Field("shuffle", dataset.shuffle);
  visit.Field("autoShard", dataset.auto_shard);
  visit.Field("cache", dataset.cache);
  visit.Field("cacheDirectory", dataset.cache_directory);
  visit.Field("prefetch", dataset.prefetch, IntegerRange{0, 1024});
  visit.Field("synthetic", dataset.synthetic);
  visit.Field("npy", dataset.npy);
  visit.Field("csv", dataset.csv);
  visit.Field("validationFraction", dataset.validation_fraction, RealRange{0, 1, false, true});
  visit.Field("imageSize", dataset.image_size, IntegerRange{1, 65'535});
  visit.Field("imageChannels", dataset.image_channels, IntegerRange{1, 3});
  visit.Field("interpolation", dataset.interpolation);
  visit.Field("tfrecord", dataset.tfrecord);
  visit.Field("threads", dataset.threads, IntegerRange{0, 1024});
  visit.Field("augment", dataset.augment);
  visit.Field("normalize", dataset.normalize);
}

void Fields(auto& visit, Like<BatchSizeSpec> auto& batch_size) {
  visit.Field("global", batch_size.global, IntegerRange{1, 1'000'000'000});
  visit.Field("perReplica", batch_size.per_replica, IntegerRange{1, 1'000'000'000});
}

void Fields(auto& visit, Like<LearningRateScheduleSpec> auto& schedule) {
  visit.Field("type", schedule.type);
  visit.Field("warmupSteps", schedule.warmup_steps, AtLeast(0));
  visit.Field("finalFraction", schedule.final_fraction, RealRange{0, 1});
  visit.Field("factor", schedule.factor, RealRange{0, 1, true, false});
  visit.Field("everySteps", schedule.every_steps, AtLeast(1));
  visit.Field("power", schedule.power, Above(0));
}

void Fields(auto& visit, Like<LossSpec> auto& loss) {
  visit.Field("type", loss.type);
  visit.Field("fromLogits", loss.from_logits);
  visit.Field("delta", loss.delta, Above(0));
}

void Fields(auto& visit, Like<OptimizerSpec> auto& optimizer) {
  const RealRange below_one{0, 1, false, true};
  visit.Field("name", optimizer.name);
  visit.Field("learningRate", optimizer.learning_rate, Above(0));
  visit.Field("momentum", optimizer.momentum, below_one);
  visit.Field("nesterov", optimizer.nesterov);
  visit.Field("beta1", optimizer.beta1, below_one);
  visit.Field("beta2", optimizer.beta2, below_one);
  visit.Field("rho", optimizer.rho, below_one);
  visit.Field("epsilon", optimizer.epsilon, Above(0));
  visit.Field("initialAccumulatorValue", optimizer.initial_accumulator_value, NotBelow(0));
  visit.Field("trustCoefficient", optimizer.trust_coefficient, Above(0));
  visit.Field("muonMomentum", optimizer.muon_momentum, below_one);
  visit.Field("muonNesterov", optimizer.muon_nesterov);
  visit.Field("adamLrRatio", optimizer.adam_lr_ratio, Above(0));
  visit.Field("excludeLayers", optimizer.exclude_layers);
  visit.Field("weightDecay", optimizer.weight_decay, NotBelow(0));
  visit.Field("weightDecayExclude", optimizer.weight_decay_exclude);
  visit.Field("globalClipNorm", optimizer.global_clip_norm, NotBelow(0));
}

void Fields(auto& visit, Like<InitialWeightsSpec> auto& weights) {
  visit.Field("path", weights.path);
  visit.Field("exclude", weights.exclude);
}

void Fields(auto& visit, Like<CheckpointSpec> auto& checkpoint) {
  visit.Field("directory", checkpoint.directory);
  visit.Field("everySteps", checkpoint.every_steps, AtLeast(0));
  visit.Field("keep", checkpoint.keep, IntegerRange{1, 10'000});
  visit.Field("keepBest", checkpoint.keep_best);
  visit.Field("exportTo", checkpoint.export_to);
}

void Fields(auto& visit, Like<SummariesSpec> auto& summaries) {
  visit.Field("directory", summaries.directory);
  visit.Field("everySteps", summaries.every_steps, AtLeast(1));
}

void Fields(auto& visit, Like<EvaluationSpec> auto& evaluation) {
  visit.Field("enabled", evaluation.enabled);
  visit.Field("everyEpochs", evaluation.every_epochs, AtLeast(1));
  visit.Field("metrics", evaluation.metrics, SetOf(0, std::size(kEnumNames<TestMetric>)));
  visit.Field("topK", evaluation.top_k, IntegerRange{1, 1'000'000});
}

void Fields(auto& visit, Like<EarlyStoppingSpec> auto& stopping) {
  visit.Field("metric", stopping.metric);
  visit.Field("patience", stopping.patience, IntegerRange{1, 1'000'000});
  visit.Field("minDelta", stopping.min_delta, NotBelow(0));
  visit.Field("startFromEpoch", stopping.start_from_epoch, IntegerRange{0, 1'000'000});
  visit.Field("restoreBest", stopping.restore_best);
}

void Fields(auto& visit, Like<EmaSpec> auto& ema) {
  visit.Field("decay", ema.decay, RealRange{0, 1, true, true});
}

void Fields(auto& visit, Like<TrainingSpec> auto& training) {
  visit.Field("model", training.model);
  visit.Field("dataset", training.dataset);
  visit.Field("batchSize", training.batch_size);
  visit.Field("gradientAccumulation", training.gradient_accumulation, IntegerRange{1, 65'536});
  visit.Field("epochs", training.epochs, AtLeast(1));
  visit.Field("steps", training.steps, AtLeast(1));
  visit.Field("seed", training.seed, AtLeast(0));
  visit.Field("initialWeights", training.initial_weights);
  visit.Field("loss", training.loss);
  visit.Field("labelSmoothing", training.label_smoothing, RealRange{0, 1, false, true});
  visit.Field("optimizer", training.optimizer);
  visit.Field("learningRateSchedule", training.learning_rate_schedule);
  visit.Field("ema", training.ema);
  visit.Field("maxSkippedSteps", training.max_skipped_steps, IntegerRange{0, 1'000'000});
  visit.Field("precision", training.precision);
  visit.Field("activationCheckpointing", training.activation_checkpointing);
  visit.Field("checkpoint", training.checkpoint);
  visit.Field("summaries", training.summaries);
  visit.Field("evaluation", training.evaluation);
  visit.Field("earlyStopping", training.early_stopping);
  visit.Field("rendezvousTimeoutSeconds", training.rendezvous_timeout_seconds,
              IntegerRange{1, kMaxSeconds});
  visit.Field("variants", training.variants, ListOfObjects());
}

}  // namespace lockstep::api
