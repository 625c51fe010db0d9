/** The command tree of `concord`: one noun per file; usage mistakes exit 64 and name the nearest right word. */
import { type Command, CommanderError } from 'commander'
import { version } from '#app/version'
import { refuse } from '#kernel/refusal'
import { addApprove } from './approve.ts'
import { addArtifacts } from './artifacts.ts'
import { addCancel } from './cancel.ts'
import { addCommandSchedules } from './command-schedules.ts'
import { addCommands } from './commands.ts'
import { addConnectors } from './connectors.ts'
import { addDepend } from './depend.ts'
import { addDoctor } from './doctor.ts'
import { addEvents } from './events.ts'
import { exitCodeOf } from './exit-codes.ts'
import { addHistory } from './history.ts'
import { addInbox } from './inbox.ts'
import { addJobGroups } from './job-groups.ts'
import { addJobTemplates } from './job-templates.ts'
import { addJobs } from './jobs.ts'
import { addKeys } from './keys.ts'
import { addMemory } from './memory.ts'
import { addMigrate } from './migrate.ts'
import { addNotifications } from './notifications.ts'
import { addPeople } from './people.ts'
import { addPropose } from './propose.ts'
import { addReservations } from './reservations.ts'
import { addRetry } from './retry.ts'
import { addScheduler } from './scheduler.ts'
import { addSchedules } from './schedules.ts'
import { addStuck } from './stuck.ts'
import { addSubmit } from './submit.ts'
import { addTaskTypes } from './task-types.ts'
import { type Cli, showRefusal, type Terminal } from './terminal.ts'
import { addUp } from './up.ts'
import { HouseCommand, UsageMistake } from './usage.ts'
import { addWhy } from './why.ts'
import { addWorker } from './worker.ts'

const HELP = ['help [command]', 'show the help of a command'] as const

/** A noun would inherit the one of the program, and with it a heading that is not its own. */
function giveOwnHelp(command: Command): void {
  for (const noun of command.commands.filter(({ commands }) => commands.length > 0)) {
    noun.helpCommand(...HELP)
    giveOwnHelp(noun)
  }
}

export function createProgram(terminal: Terminal): { program: Command; exitCode: () => number } {
  let exitCode = 0
  const program = new HouseCommand('concord')
    .description('Runs the work of people, agents and jobs under contract.')
    .version(version, '-v, --version', 'print the version')
    .option('--json', 'answer in JSON, for machines (may stand anywhere)')
    .configureOutput({ writeOut: terminal.out, writeErr: terminal.err, getOutHasColors: () => terminal.isTty })
    .showSuggestionAfterError()
    .exitOverride()
  const cli: Cli = {
    terminal,
    handle:
      (work) =>
      async (...args) => {
        const outcome = await work(...args)
        if (outcome.ok) return
        showRefusal(terminal, outcome, program.opts()['json'] === true)
        exitCode = exitCodeOf(outcome)
      },
  }
  const house = [addUp, addWorker, addDoctor, addMigrate, addStuck, addKeys, addPeople, addEvents, addHistory]
  const work = [
    addTaskTypes,
    addSubmit,
    addPropose,
    addCommands,
    addWhy,
    addInbox,
    addNotifications,
    addApprove,
    addCancel,
    addDepend,
    addRetry,
    addCommandSchedules,
    addArtifacts,
    addConnectors,
    addMemory,
  ]
  const jobs = [addJobs, addJobGroups, addJobTemplates, addSchedules, addReservations, addScheduler]
  // Said here, it belongs to the first group; left to the parser, it would have one of its own.
  program.commandsGroup('Run the service:').helpCommand(...HELP)
  for (const [heading, nouns] of [
    ['Run the service:', house],
    ['Ask for work, decide, look:', work],
    ['Jobs of this machine, without a server:', jobs],
  ] as const) {
    program.commandsGroup(heading)
    for (const add of nouns) add(program, cli)
  }
  giveOwnHelp(program)
  program.addHelpText(
    'after',
    '\nExamples:\n  $ concord up\n  $ concord keys create --name ci --role writer\n  $ concord submit "Generate Report" --file report.json --wait\n  $ concord inbox\n  $ concord events tail\n',
  )
  return { program, exitCode: () => exitCode }
}

/** `--json` counts wherever it stands: people put it last, where the parser would not look for it. */
function jsonFirst(args: readonly string[]): string[] {
  const end = args.indexOf('--')
  const own = end < 0 ? args : args.slice(0, end)
  if (!own.includes('--json')) return [...args]
  return ['--json', ...own.filter((arg) => arg !== '--json'), ...(end < 0 ? [] : args.slice(end))]
}

export async function runProgram(args: readonly string[], terminal: Terminal): Promise<number> {
  const { program, exitCode } = createProgram(terminal)
  try {
    await program.parseAsync(jsonFirst(args), { from: 'user' })
    return exitCode()
  } catch (error) {
    if (error instanceof UsageMistake) {
      showRefusal(terminal, error.refusal, program.opts()['json'] === true)
      return exitCodeOf(error.refusal)
    }
    if (error instanceof CommanderError) return error.exitCode === 0 ? 0 : 64
    const said = error instanceof Error ? error.message : String(error)
    const hint = 'This should not happen; `concord doctor` looks at what everything needs.'
    showRefusal(terminal, refuse('internal_error', said, { hint }), program.opts()['json'] === true)
    return 70
  }
}
