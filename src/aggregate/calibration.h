/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Measures a group's aggregators as soon as all its connections are made (docs/design/aggregation.md, Measured rates), by
 * operations of the engine's own, with the members alone and with each aggregator. All members have the same times, and so the same rates.
 */
#ifndef TRIBUTARY_AGGREGATE_CALIBRATION_H
#define TRIBUTARY_AGGREGATE_CALIBRATION_H

struct group;

/*
 * In the thread of the group's caller, before anything else is posted. Blocks; an aggregator that does not answer is lost after
 * a part of the time-out. An error: a member is gone, or was silent for longer than that; the group is closed then.
 */
int calibration_run(struct group *group);

#endif
