//! The list of a server's tools, taken once: what it says later is compared with it and changes nothing.

use std::collections::BTreeMap;
use std::sync::Arc;

use rmcp::model::{JsonObject, Tool};

use crate::fault::Fault;
use crate::name::ServerName;
use crate::servers::Remark;

/// Bytes of a tool's name that are still shown and compared.
const NAME_BYTES: usize = 128;

/// Bytes of a description and of a schema: a model reads both with every request.
const TOLD_BYTES: usize = 16 * 1024;

/// A tool as it was when the list was taken.
#[derive(Debug, Clone)]
pub(crate) struct Listed {
    /// What the server calls it.
    pub(crate) name: String,
    /// What models call it.
    pub(crate) for_models: String,
    /// What models are told.
    pub(crate) description: Option<String>,
    /// The shape of its arguments.
    pub(crate) schema: Arc<JsonObject>,
}

impl Listed {
    fn of(server: &ServerName, tool: Tool) -> Result<Self, String> {
        let Tool { name, description, input_schema: schema, .. } = tool;
        if name.is_empty() || name.len() > NAME_BYTES || name.chars().any(char::is_control) {
            return Err(format!("its name is empty, longer than {NAME_BYTES} bytes or not in one line"));
        }
        let Some(for_models) = server.for_models(&name) else {
            return Err("its name is too long for models; give the server a shorter name".to_owned());
        };
        if schema.get("type").and_then(|kind| kind.as_str()) != Some("object") {
            return Err("the schema of its arguments is not that of an object".to_owned());
        }
        let schema_bytes = serde_json::to_string(&schema).map_or(usize::MAX, |text| text.len());
        if schema_bytes.max(description.as_ref().map_or(0, |text| text.len())) > TOLD_BYTES {
            return Err(format!("its description or its schema is longer than {} KiB", TOLD_BYTES >> 10));
        }
        let description = description.map(String::from);
        Ok(Self { name: name.into_owned(), for_models, description, schema })
    }

    /// Whether the server still says of the tool what it said when the list was taken.
    pub(crate) fn check_unchanged(&self, now: &[Tool]) -> Result<(), Fault> {
        let mut same_name = now.iter().filter(|tool| tool.name == self.name);
        let (Some(tool), None) = (same_name.next(), same_name.next()) else {
            return Err(Fault::Changed { how: "dropped this tool, or listed it twice," });
        };
        if tool.description.as_deref() != self.description.as_deref() {
            return Err(Fault::Changed { how: "changed the description of this tool" });
        }
        if tool.input_schema != self.schema {
            return Err(Fault::Changed { how: "changed the schema of this tool" });
        }
        Ok(())
    }
}

/// Sorts out what cannot be offered, and says why. Of several tools that models could not tell apart none is.
pub(crate) fn catalog(server: &ServerName, tools: Vec<Tool>) -> (Vec<Listed>, Vec<Remark>) {
    let mut by_name: BTreeMap<String, Vec<Listed>> = BTreeMap::new();
    let mut remarks = Vec::new();
    for tool in tools {
        let name = tool.name.to_string();
        match Listed::of(server, tool) {
            Ok(listed) => by_name.entry(listed.for_models.clone()).or_default().push(listed),
            Err(problem) => remarks.push(Remark::about_tool(server, &name, &problem)),
        }
    }
    let mut catalog = Vec::new();
    for (for_models, mut same) in by_name {
        if same.len() == 1 {
            catalog.append(&mut same);
            continue;
        }
        let problem = format!("the server offers {} tools that models would call `{for_models}`", same.len());
        remarks.extend(same.iter().map(|tool| Remark::about_tool(server, &tool.name, &problem)));
    }
    (catalog, remarks)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn tool(name: &str, description: &str, schema: &Value) -> Tool {
        let tool = json!({ "name": name, "description": description, "inputSchema": schema });
        serde_json::from_value(tool).unwrap()
    }

    fn taken(tools: Vec<Tool>) -> String {
        let (catalog, remarks) = catalog(&"demo".parse().unwrap(), tools);
        let offered = catalog.iter().map(|tool| format!("{} as {}", tool.name, tool.for_models));
        offered.chain(remarks.into_iter().map(|remark| remark.text)).collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn what_can_be_offered_and_what_cannot() {
        let object = json!({ "type": "object" });
        let tools = vec![
            tool("echo", "", &object),
            tool("Get.Thing", "", &object),
            tool("get_thing", "", &object),
            tool("", "", &object),
            tool("a\nb", "", &object),
            tool(&"x".repeat(70), "", &object),
            tool("list", "", &json!({ "type": "array" })),
            tool("none", "", &json!({})),
            tool("wordy", &"x".repeat(TOLD_BYTES + 1), &object),
            tool("plan_update", "", &object),
        ];
        insta::assert_snapshot!(taken(tools), @r"
        echo as demo__echo
        plan_update as demo__plan_update
        MCP server `demo`: `demo/` is not offered: its name is empty, longer than 128 bytes or not in one line
        MCP server `demo`: `demo/a b` is not offered: its name is empty, longer than 128 bytes or not in one line
        MCP server `demo`: `demo/xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx` is not offered: its name is too long for models; give the server a shorter name
        MCP server `demo`: `demo/list` is not offered: the schema of its arguments is not that of an object
        MCP server `demo`: `demo/none` is not offered: the schema of its arguments is not that of an object
        MCP server `demo`: `demo/wordy` is not offered: its description or its schema is longer than 16 KiB
        MCP server `demo`: `demo/Get.Thing` is not offered: the server offers 2 tools that models would call `demo__get_thing`
        MCP server `demo`: `demo/get_thing` is not offered: the server offers 2 tools that models would call `demo__get_thing`
        ");
    }

    #[test]
    fn a_tool_that_changed_its_description_its_schema_or_its_name_is_another_one() {
        let one = tool("a", "does a", &json!({ "type": "object", "properties": {} }));
        let listed = Listed::of(&"demo".parse().unwrap(), one.clone()).unwrap();
        let check = |now: &[Tool]| listed.check_unchanged(now).map_err(|fault| fault.to_string());
        let mut hinted = one.clone();
        hinted.annotations = serde_json::from_value(json!({ "readOnlyHint": true })).unwrap();
        assert_eq!(check(&[tool("b", "", &json!({ "type": "object" })), hinted]), Ok(()));
        let changed = [
            check(&[]),
            check(&[one.clone(), one.clone()]),
            check(&[tool("a", "does b", &json!({ "type": "object", "properties": {} }))]),
            check(&[tool("a", "does a", &json!({ "type": "object", "properties": {}, "required": ["x"] }))]),
        ];
        insta::assert_snapshot!(changed.map(Result::unwrap_err).join("\n"), @r"
        it has dropped this tool, or listed it twice, since this run took the list of its tools
        it has dropped this tool, or listed it twice, since this run took the list of its tools
        it has changed the description of this tool since this run took the list of its tools
        it has changed the schema of this tool since this run took the list of its tools
        ");
    }
}
