/** The files of one folder as a connector. Nothing outside the folder can be read, written, listed or deleted. */
import { isAbsolute } from 'node:path'
import { z } from 'zod'
import { type JsonObject, utf8Size } from '#kernel/json-value'
import {
  type Connector,
  type ConnectorCall,
  type ConnectorDefinition,
  type ConnectorInput,
  type ConnectorResult,
  defineConnector,
  succeeded,
  unsupported,
} from '../connector.ts'
import { deleteFile, hashOf, holdsText, listFolder, readFileText, writeText } from './folder.ts'

export type FilesConnectorInput = Pick<ConnectorInput, 'name' | 'description'> &
  Partial<Pick<ConnectorInput, 'connector_id' | 'rate_limits' | 'risk_level' | 'data_class_max'>> & {
    /** An absolute path. */
    readonly root: string
    readonly file_max_bytes?: number
    /** False by default: the connector only reads. */
    readonly writable?: boolean
    readonly approval_required?: boolean
  }

const path = z.string().min(1).max(1_024)
const sha256 = z.string().regex(/^[0-9a-f]{64}$/)
const written = z.strictObject({ path: z.string(), size_bytes: z.int(), sha256: z.string() })
/** Leaves room for the JSON around the text of a file. */
const OUTPUT_BYTES = 1_048_576
const FILE_BYTES = 524_288

export function filesConnector(input: FilesConnectorInput): ConnectorDefinition {
  const { root, file_max_bytes = FILE_BYTES, writable = false, approval_required = false, ...declared } = input
  // Counted in bytes like the file, so that every written file can be read back.
  const content = z
    .string()
    .max(file_max_bytes)
    .refine((text) => utf8Size(text) <= file_max_bytes)
  const operations = [...reading(content), ...(writable ? writing(content, approval_required) : [])]
  return defineConnector({
    ...declared,
    connector_type: 'files',
    read_scopes: ['files:read'],
    write_scopes: writable ? ['files:write'] : [],
    operations,
    settings: { root, file_max_bytes, writable },
    flaws: [
      ...(isAbsolute(root) ? [] : ['root must be an absolute path.']),
      ...(Number.isSafeInteger(file_max_bytes) && file_max_bytes >= 1 && file_max_bytes <= OUTPUT_BYTES / 2
        ? []
        : [`file_max_bytes must be between 1 and ${OUTPUT_BYTES / 2}.`]),
    ],
    open: () =>
      openFiles(
        declared.name,
        root,
        file_max_bytes,
        operations.map(({ name }) => name),
      ),
  })
}

function reading(content: z.ZodType): ConnectorInput['operations'] {
  const common = {
    side_effect_class: 'none' as const,
    scopes: ['files:read'],
    timeout_ms: 10_000,
    output_max_bytes: OUTPUT_BYTES,
  }
  return [
    {
      ...common,
      name: 'read_file',
      description: 'Reads a text file.',
      input: z.strictObject({ path }),
      output: z.strictObject({ text: z.string(), size_bytes: z.int(), sha256: z.string() }),
    },
    {
      ...common,
      name: 'list_files',
      description: 'Lists the files and folders in a folder.',
      input: z.strictObject({ path: z.string().max(1_024).default('.') }),
      output: z.strictObject({
        items: z.array(z.strictObject({ name: z.string(), kind: z.enum(['file', 'folder']), size_bytes: z.int() })),
        truncated: z.boolean(),
      }),
    },
    {
      ...common,
      name: 'check_file',
      description: 'Says whether a file holds exactly this text.',
      input: z.strictObject({ path, text: content }),
      output: z.strictObject({ same: z.boolean(), file: z.nullable(written) }),
    },
  ]
}

function writing(content: z.ZodType, approval_required: boolean): ConnectorInput['operations'] {
  const read_back = {
    operation: 'check_file',
    input: { path: '{input.path}', text: '{input.text}' },
    found: 'same',
    result: 'file',
  }
  const common = { scopes: ['files:write'], timeout_ms: 10_000, risk_level: 'medium' as const, approval_required }
  return [
    {
      ...common,
      name: 'create_file',
      description: 'Writes a new text file; refuses where there is one.',
      input: z.strictObject({ path, text: content }),
      output: written,
      side_effect_class: 'queryable',
      read_back,
      compensation: { operation: 'delete_file', input: { path: '{output.path}', expected_sha256: '{output.sha256}' } },
    },
    {
      ...common,
      name: 'replace_file',
      description: 'Replaces a text file that the caller has read.',
      input: z.strictObject({ path, text: content, expected_sha256: sha256 }),
      output: written,
      side_effect_class: 'queryable',
      read_back,
    },
    {
      ...common,
      name: 'delete_file',
      description: 'Deletes a file that the caller has read; succeeds if the file no longer exists.',
      input: z.strictObject({ path, expected_sha256: sha256 }),
      output: z.strictObject({ path: z.string(), deleted: z.boolean() }),
      side_effect_class: 'keyed',
    },
  ]
}

function openFiles(name: string, root: string, bytesMax: number, capabilities: readonly string[]): Connector {
  return {
    name,
    connector_type: 'files',
    capabilities: () => capabilities,
    async call(call): Promise<ConnectorResult> {
      const output = capabilities.includes(call.capability) ? await carryOut(root, bytesMax, call) : undefined
      return output === undefined ? unsupported(call.capability) : succeeded(output)
    },
  }
}

/** The gate has checked the input. */
async function carryOut(
  root: string,
  bytesMax: number,
  { capability, input, context }: ConnectorCall,
): Promise<JsonObject | undefined> {
  const { path: at, text, expected_sha256: expected } = input as { path: string; text: string; expected_sha256: string }
  const by = `${context.domain_effect_id}.tmp`
  switch (capability) {
    case 'read_file':
      return readFileText(root, at, bytesMax)
    case 'list_files':
      return listFolder(root, at)
    case 'check_file': {
      const same = await holdsText(root, at, text, by)
      return { same, file: same ? { path: at, size_bytes: utf8Size(text), sha256: hashOf(text) } : null }
    }
    case 'create_file':
      return writeText(root, { path: at, text, expected: null, by, bytesMax })
    case 'replace_file':
      return writeText(root, { path: at, text, expected, by, bytesMax })
    case 'delete_file':
      return deleteFile(root, at, expected, bytesMax)
    default:
      return undefined
  }
}
