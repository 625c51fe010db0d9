/** `concord jobs logs`: the output of a job, as far as it is there, or as it comes. */
import type { Command } from 'commander'
import type { Scheduler } from '#app/scheduler'
import { accept, type Refusal } from '#kernel/refusal'
import { hintOf } from '#refusals'
import { showText } from '#kernel/visible-text'
import { isJson } from './ask-server.ts'
import { type FileFlag, fileOption, type Jobs, readId, withJobs } from './jobs-file.ts'
import type { Cli, Outcome } from './terminal.ts'

type LogFlags = FileFlag & { follow?: true }

export function addJobsLogs(jobs: Command, program: Command, cli: Cli): void {
  fileOption(jobs.command('logs <job>'))
    .description('the output of a job')
    .option('--follow', 'go on until the job has ended')
    .addHelpText('after', '\nExample:\n  $ concord jobs logs job_0197… --follow\n')
    .action(
      cli.handle((id: string, flags: LogFlags) =>
        withJobs(cli, flags, async (scheduler, jobs) => {
          const jobId = readId('job', id)
          if (!jobId.ok) return jobId
          return printLog(cli, scheduler, jobs, {
            jobId: jobId.value,
            isFollowed: flags.follow === true,
            json: isJson(program),
          })
        }),
      ),
    )
}

type Wanted = { readonly jobId: string; readonly isFollowed: boolean; readonly json: boolean }

export async function printLog(cli: Cli, scheduler: Scheduler, jobs: Jobs, wanted: Wanted): Promise<Outcome> {
  const { terminal } = cli
  const { jobId, isFollowed: follow, json } = wanted
  const decoder = new TextDecoder()
  const say = (bytes: Uint8Array, stream: boolean) => {
    const text = decoder.decode(bytes, { stream })
    if (text === '') return
    // A terminal is not a place for the escapes of strangers; a file gets every byte as it was.
    terminal.out(json ? `${JSON.stringify({ text })}\n` : terminal.isTty ? showText(text) : text)
  }
  const log = jobs.readLog(scheduler, jobId, { follow, wait: jobs.realWait, stop: terminal.stop })
  if (!log.ok) return hinted(log)
  for await (const bytes of log.value) say(bytes, true)
  say(new Uint8Array(), false)
  return accept(undefined)
}

function hinted(refusal: Refusal): Refusal {
  if (refusal.code !== 'scheduler.log.not_found') return refusal
  return { ...refusal, hint: `${hintOf(refusal)} (\`concord jobs show\`, or --follow)` }
}
