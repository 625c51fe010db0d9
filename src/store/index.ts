/** The exports of the store. */
export { openCheckedDb } from './checked-db.ts'
export {
  claimLapsed,
  claimNext,
  type ClaimRequest,
  type Held,
  type Leased,
  leasedTable,
  releaseLeases,
  renewLeases,
} from './claim.ts'
export { type DatabaseUrl, maskDatabaseUrl, parseDatabaseUrl } from './database-url.ts'
export { type Db, type DbConfig, openDb, type Sql, type Tx } from './db.ts'
export { explainConnect } from './connect-refusal.ts'
export { type ConnectionRoom, MAKE_ROOM, readConnectionRoom, sayCrowded } from './connection-room.ts'
export { checkServer, type DurabilityRules, readServerFacts, type ServerFacts } from './durability.ts'
export { findPortHolder } from './embedded/port.ts'
export { type EmbeddedOptions, type EmbeddedPostgres, openEmbeddedPostgres } from './embedded/server.ts'
export { domainEventLog, type EventPurpose, type JournalEvent } from './events-domain.ts'
export { appendEvents, defineEventLog, type EventDraft, eventIdOf, type EventLog } from './events.ts'
export { constraintOf, type Outcome, outcomeOf, refuseConstraint, sqlStateOf, UnknownOutcome } from './faults.ts'
export { cursorOf, type FeedPlace, feedStart, parseCursor } from './feed-cursor.ts'
export { followFeed, type FollowOptions } from './feed-follow.ts'
export {
  defineFeed,
  domainFeed,
  type DomainFeedRow,
  type Feed,
  type FeedEvent,
  type FeedPage,
  findFeedEnd,
  readFeed,
} from './feed.ts'
export { type ArchiveFolder, listArchiveFolder, removeLeftovers } from './history/archive-folder.ts'
export { archiveFileOf, type ArchiveManifest } from './history/manifest.ts'
export {
  type ArchivedEvent,
  type ArchivedKey,
  readArchive,
  refuseFile,
  type VerifiedArchive,
  verifyArchive,
} from './history/read-archive.ts'
export { writeArchive } from './history/write-archive.ts'
export { type InsertLane, openInsertLane, refuseInProgress } from './lane-inserts.ts'
export { type Lane, type LaneConfig, openLane } from './lane.ts'
export {
  migrateDown,
  type Migrated,
  type MigrateOptions,
  migrateUp,
  type MigrationStatus,
  migrationStatus,
  type MigrationTarget,
  schemaVersion,
} from './migrate.ts'
export { defineTable, type Table } from './table.ts'
export { type Notices, openNotices } from './notices.ts'
export { insertOnce, type Once, type OnceTable, onceTable } from './once.ts'
export {
  drainAbandoned,
  type Drained,
  drainOutbox,
  type DrainOptions,
  type OutboxDraft,
  type OutboxRow,
  type OutboxTable,
  outboxTable,
  runOutbox,
  writeOutbox,
} from './outbox.ts'
export { failpoint, type FailpointName, failpointNames } from './failpoints.ts'
export { scoped } from './scoped.ts'
export { listStatements, statement, type Statement } from './statement.ts'
export { together } from './together.ts'
export {
  type LogBinding,
  type Moved,
  type Projection,
  rowType,
  storedMachine,
  type StoredMachine,
} from './transition/stored-machine.ts'
export {
  isLostRace,
  type LostRace,
  transition,
  type TransitionResult,
} from './transition/transition.ts'
export { storeRefusals } from './refusals.ts'
