/** The refusals of the command line: each code with its kind and the next step. */
import type { RefusalTable } from '#kernel/refusal'

export const cliRefusals = {
  'cli.usage': ['usage', 'Add --help to see how.'],
  'cli.confirmation_missing': ['usage', 'Add --yes to confirm.'],
  'cli.file.unreadable': ['forbidden', 'Check that the file exists and that you may read it.'],
  'cli.file.unwritable': ['forbidden', 'Check that you may write to the folder.'],
  'cli.init.exists': ['usage', 'Name a new folder: `concord init <folder>`.'],
  'cli.file.invalid': ['malformed', 'Fix the file; --help shows its format.'],
  'cli.key.missing': ['unauthenticated', 'Set CONCORD_KEY to a key of that server.'],
  'cli.wait.ended': ['timeout', 'The work continues; ask for its status later.'],
  'cli.authority.broken': [
    'invalid',
    '`concord stop --run` stops it. Then find out who can write to the database beside Concord.',
  ],
  'cli.preflight.not_ready': ['invalid', 'Provide what it lists as missing, and run the pre-flight again.'],
  'cli.command.waiting': ['conflict', '`concord why <id>` shows who is asked, and for what.'],
  'cli.mission.not_completed': ['invalid', '`concord missions show <id>` shows why each task failed.'],
  'cli.command.not_succeeded': ['invalid', '`concord why <id>` explains why.'],
} as const satisfies RefusalTable

declare module '#kernel/refusal' {
  interface RefusalTables {
    cli: typeof cliRefusals
  }
}
