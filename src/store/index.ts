/** The exports of the store, also published as `@concordhq/concord/store`. */
export {
  archiveFileOf,
  type ArchivedEvent,
  listArchiveFolder,
  readArchive,
  refuseArchiveFile,
  removeLeftovers,
  type VerifiedArchive,
  verifyArchive,
  writeArchive,
} from './archive.ts'
export {
  type ConnectionRoom,
  explainConnect,
  MAKE_ROOM,
  openCheckedDb,
  readConnectionRoom,
  readServerFacts,
  sayCrowded,
} from './check-server.ts'
export { parseDatabaseUrl } from './database-url.ts'
export { type Db, type DbConfig, openDb, scoped } from './db.ts'
export { findPortHolder } from './embedded/port.ts'
export { isAlive } from './embedded/postmaster.ts'
export { type EmbeddedPostgres, hasCluster, homeGone, openEmbeddedPostgres } from './embedded/server.ts'
export {
  appendEvents,
  auditTypeOf,
  COMMON_AUDIT_TYPES,
  defineEventLog,
  domainEventLog,
  type EventDraft,
  eventIdOf,
  type EventLog,
  type JournalEvent,
} from './events.ts'
export { failpoint, type FailpointName } from './failpoints.ts'
export { constraintOf, outcomeOf, refuseConstraint, sqlStateOf, UnknownOutcome } from './faults.ts'
export { followFeed } from './feed-follow.ts'
export { type FeedHub, openFeedHub } from './feed-hub.ts'
export {
  type DomainFeedRow,
  type FeedEvent,
  type FeedPosition,
  feedStart,
  findFeedEnd,
  feedCursorForm,
  parseCursor,
  readFeed,
  SEQ_MAX,
  SEQ_STEP,
  XID_MAX,
} from './feed.ts'
export { openLane, type Submitted } from './lane.ts'
export { migrateDown, migrateUp, migrationStatus } from './migrate.ts'
export { type Notices, openNotices } from './notices.ts'
export { insertOnce, type Once, refuseInProgress, untilSettled } from './once.ts'
export { cutPage, LARGE_ROWS, type Paged, pageText, readSlices } from './page.ts'
export { storeRefusals } from './refusals.ts'
export {
  bind,
  type Bound,
  collectParams,
  insertRecord,
  listStatements,
  type PgType,
  type Sql,
  statement,
  type Statement,
} from './statement.ts'
export { defineTable, type Table } from './table.ts'
export { adoptTransaction, type ForeignClient, together, type Tx } from './transaction.ts'
export { isLostRace, storedMachine, transition, type TransitionResult } from './transition.ts'
