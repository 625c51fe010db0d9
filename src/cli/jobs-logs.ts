/** `concord jobs logs`: the output of a job, as far as it is there, or as it comes. */
import { open } from 'node:fs/promises'
import type { Command } from 'commander'
import type { Scheduler, StoredRun } from '#app/scheduler'
import { accept, type Decision, refuse } from '#kernel/refusal'
import { showText } from '#kernel/visible-text'
import { isJson } from './ask-server.ts'
import { type FileFlag, fileOption, type Jobs, readId, withJobs } from './jobs-file.ts'
import type { Cli, Outcome } from './program.ts'

type LogFlags = FileFlag & { follow?: true }
const LOOK_MS = 150
const CHUNK_BYTES = 65_536

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
          return print(cli, scheduler, jobs, {
            jobId: jobId.value,
            isFollowed: flags.follow === true,
            json: isJson(program),
          })
        }),
      ),
    )
}

type Wanted = { readonly jobId: string; readonly isFollowed: boolean; readonly json: boolean }

async function print(
  cli: Cli,
  scheduler: Scheduler,
  jobs: Jobs,
  { jobId, isFollowed, json }: Wanted,
): Promise<Outcome> {
  const { terminal } = cli
  const decoder = new TextDecoder()
  const say = (bytes: Uint8Array, stream: boolean) => {
    const text = decoder.decode(bytes, { stream })
    if (text === '') return
    // A terminal is not a place for the escapes of strangers; a file gets every byte as it was.
    terminal.out(json ? `${JSON.stringify({ text })}\n` : terminal.isTty ? showText(text) : text)
  }
  for (let offset = 0; ; ) {
    // The run first, the file second: what was written before the end is read after it.
    const report = jobs.readJob(scheduler, jobId)
    if (!report.ok) return report
    const { job, run } = report.value
    const isOver = job.status === 'CANCELLED' || run?.status != null
    if (run?.log_path != null) {
      const read = await readFrom(run.log_path, offset, (bytes) => say(bytes, true))
      if (!read.ok) return read
      offset = read.value
    } else if (!isFollowed || isOver) return refuseNoLog(run)
    if (isOver || !isFollowed || terminal.stop.aborted) break
    await jobs.realWait(LOOK_MS, terminal.stop)
  }
  say(new Uint8Array(), false)
  return accept(undefined)
}

async function readFrom(path: string, start: number, onBytes: (bytes: Uint8Array) => void): Promise<Decision<number>> {
  try {
    await using file = await open(path)
    const buffer = Buffer.alloc(CHUNK_BYTES)
    for (let offset = start; ; ) {
      const { bytesRead } = await file.read(buffer, 0, buffer.byteLength, offset)
      if (bytesRead === 0) return accept(offset)
      onBytes(buffer.subarray(0, bytesRead))
      offset += bytesRead
    }
  } catch (error) {
    const { code = String(error) } = error as NodeJS.ErrnoException
    return refuse('scheduler.log.not_found', `the log ${path} cannot be read: ${code}`)
  }
}

function refuseNoLog(run: StoredRun | null): Outcome {
  return refuse('scheduler.log.not_found', run ? 'the run has left no log' : 'the job has not started yet', {
    hint: run ? '`concord jobs show` says how it ended.' : 'Add --follow to wait for it.',
  })
}
